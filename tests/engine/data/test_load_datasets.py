"""From the config's data section to training and held-out data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verlcli.config.types import DataConfig
from verlcli.engine.data import load_datasets
from verlcli.errors import ConfigError

BASE: dict[str, Any] = {
    "train_files": (),
    "val_files": (),
    "source": None,
    "source_args": {},
    "prompt_key": "prompt",
    "max_prompt_length": 64,
    "max_response_length": 8,
    "train_batch_size": 4,
    "train_max_samples": None,
    "val_max_samples": None,
    "truncation": "error",
    "num_dataloader_workers": "auto",
    "prefetch_factor": 2,
    "pin_memory": False,
    "shuffle": True,
    "seed": None,
}


def write_rows(path: Path, count: int) -> str:
    rows = ({"prompt": f"{n}=", "data_source": "x", "reward_model": {"ground_truth": n}} for n in range(count))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_files_give_training_and_held_out_data(tmp_path: Path) -> None:
    files = {"train_files": (write_rows(tmp_path / "a.jsonl", 6),), "val_files": (write_rows(tmp_path / "b.jsonl", 3),)}
    train, val = load_datasets(DataConfig(**{**BASE, **files}))
    assert val is not None
    assert (len(train), len(val)) == (6, 3)
    train, val = load_datasets(DataConfig(**{**BASE, **files, "val_files": (), "train_max_samples": 4}))
    assert (len(train), val) == (4, None)


def test_a_source_gives_both_as_many_as_are_wanted() -> None:
    source = {**BASE, "source": "arithmetic", "source_args": {"train_size": 20, "val_size": 5}}
    train, val = load_datasets(DataConfig(**{**source, "train_max_samples": 7, "val_max_samples": 2}))
    assert val is not None
    assert (len(train), len(val)) == (7, 2)
    with pytest.raises(IndexError):
        train[7]
    assert load_datasets(DataConfig(**{**source, "source_args": {"val_size": 0}}))[1] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "arithmetics"}, "unknown source 'arithmetics'; did you mean 'arithmetic'"),
        ({}, "data.train_files: there is no training data"),
        ({"train_files": ("none.jsonl",)}, "none.jsonl: no such file"),
    ],
)
def test_what_gives_no_data_is_refused_with_a_fix(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load_datasets(DataConfig(**{**BASE, **changes}))
    assert caught.value.fix
