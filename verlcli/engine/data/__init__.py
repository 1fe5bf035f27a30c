"""Data on its road into training: files or a generator → checked rows → a step's batch → token ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from verlcli.config.types import DataConfig
from verlcli.engine.data.arithmetic import arithmetic_datasets
from verlcli.engine.data.encode import Encoded, encode_prompt
from verlcli.engine.data.files import load_rows
from verlcli.engine.data.reasoning import reasoning_gym_datasets
from verlcli.engine.data.sampler import PromptSampler
from verlcli.engine.types import Dataset, PromptRow
from verlcli.errors import ConfigError

__all__ = ["SOURCES", "Encoded", "PromptSampler", "encode_prompt", "load_datasets", "load_rows"]

SOURCES: dict[str, Callable[[Mapping[str, Any]], tuple[Dataset, Dataset]]] = {
    "arithmetic": arithmetic_datasets,
    "reasoning_gym": reasoning_gym_datasets,
}


def load_datasets(data: DataConfig) -> tuple[Dataset, Dataset | None]:
    """Training data and held-out data (None when there is none) of a run.

    Raises:
        ConfigError: see `load_rows` and the sources; also an unknown source, or neither files nor source.
        MissingDependencyError: the source's package is absent.
    """
    if data.source is not None:
        return _generated(data, data.source)
    if not data.train_files:
        raise ConfigError(
            "there is no training data",
            where="data.train_files",
            fix=f"name files, or set data.source to one of {', '.join(SOURCES)}",
        )
    train = load_rows(data.train_files, prompt_key=data.prompt_key, max_samples=data.train_max_samples)
    if not data.val_files:
        return train, None
    return train, load_rows(data.val_files, prompt_key=data.prompt_key, max_samples=data.val_max_samples)


def _generated(data: DataConfig, name: str) -> tuple[Dataset, Dataset | None]:
    if name not in SOURCES:
        close = get_close_matches(name, SOURCES, n=1)
        raise ConfigError(
            f"unknown source {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
            where="data.source",
            fix=f"use one of {', '.join(SOURCES)}, or data.train_files",
        )
    train, held_out = SOURCES[name](data.source_args)
    return _first(train, data.train_max_samples), _first(held_out, data.val_max_samples) if len(held_out) else None


def _first(rows: Dataset, limit: int | None) -> Dataset:
    return rows if limit is None or limit >= len(rows) else _Head(rows, limit)


class _Head:
    """The first rows of a dataset."""

    def __init__(self, rows: Dataset, size: int) -> None:
        self._rows = rows
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> PromptRow:
        if not 0 <= index < self._size:
            raise IndexError(f"row {index} of a dataset of {self._size}")
        return self._rows[index]
