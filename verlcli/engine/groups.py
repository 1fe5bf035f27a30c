"""Rows of a batch by number, and batches side by side: what dynamic sampling and flat responses need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from verlcli.engine.batch import Batch

_WHOLE = ("input_ids", "attention_mask")  # prompt and response, the other matrices the response alone


def take(batch: Batch, rows: Tensor) -> Batch:
    """The `rows[k]` (row numbers in order, or a mask `[B]`) of a batch, as wide as before."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    chosen: dict[str, Any] = {name: value[rows] for name, value in values.items() if value is not None}
    return Batch(**chosen)


def join(batches: Sequence[Batch]) -> Batch:
    """Batches one under the other, padded to the widest prompt and response; their groups stay apart.

    All have the same tensors set.
    """
    prompt = max(batch.input_ids.shape[1] - batch.response_width for batch in batches)
    response = max(batch.response_width for batch in batches)
    parts: dict[str, list[Tensor]] = {}
    groups = 0
    for batch in batches:
        left = prompt - (batch.input_ids.shape[1] - batch.response_width)
        right = response - batch.response_width
        for field in fields(batch):
            value: Tensor | None = getattr(batch, field.name)
            if value is None:
                continue
            if field.name == "groups":
                value = torch.unique(value, return_inverse=True)[1] + groups
            elif value.dim() > 1:
                value = pad(value, (left if field.name in _WHOLE else 0, right))
            parts.setdefault(field.name, []).append(value)
        groups = int(parts["groups"][-1].max()) + 1
    joined: dict[str, Any] = {name: torch.cat(values) for name, values in parts.items()}
    return Batch(**joined)
