"""What stopped a run, as its user reads it."""

from __future__ import annotations

from pathlib import Path

import torch

from verlcli.config.keys import schema_at
from verlcli.engine.failures import explain
from verlcli.errors import DoesNotFitError


def test_out_of_memory_names_keys_that_exist() -> None:
    error = explain(torch.OutOfMemoryError("CUDA out of memory. Tried\nmore"), Path("run"), 4)
    assert isinstance(error, DoesNotFitError)
    assert "out of memory in step 5: CUDA out of memory. Tried" in str(error)
    words = (error.fix or "").replace(",", " ").replace(":", " ").replace("(", " ").replace(")", " ").replace(";", " ")
    keys = {word for word in words.split() if "." in word}
    assert {"training.max_token_len_per_gpu", "training.recompute", "actor.optim.master_dtype"} <= keys
    assert all(schema_at(tuple(key.split("."))) for key in keys)
