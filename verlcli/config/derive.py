"""Merged values -> values with the numbers that follow from others filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verlcli.config.keys import KeyPath
from verlcli.config.layers import Origin

BATCH: KeyPath = ("data", "train_batch_size")
_MINI: KeyPath = ("training", "ppo_mini_batch_size")
_SMALLEST_BATCH = 64  # prompts
_WHY = "default: the larger of 64 and training.ppo_mini_batch_size"


def with_batch_size(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """`values` with `data.train_batch_size` as a number; null means the larger of 64 and the mini batch."""
    data, training = values.get("data"), values.get("training")
    if not isinstance(data, dict) or data.get(BATCH[-1]) is not None:
        return values
    mini = training.get(_MINI[-1]) if isinstance(training, dict) else None
    # A mini batch that is no number is a problem of its own.
    asked = int(mini) if isinstance(mini, (int, float)) and mini == mini and abs(mini) != float("inf") else 0
    return {**values, "data": {**data, BATCH[-1]: max(_SMALLEST_BATCH, asked)}}


def batch_history(history: tuple[Origin, ...], value: int) -> tuple[Origin, ...]:
    """History of a derived `data.train_batch_size`: its null gives way to the number, or goes before it if written."""
    written = tuple(origin for origin in history if origin.kind != "default")
    derived = Origin("default", _WHY, value, ".".join(map(str, BATCH)))
    return (*history, derived) if written else (derived,)


def as_written(values: Mapping[str, Any], origins: Mapping[str, tuple[Origin, ...]]) -> dict[str, Any]:
    """`values` with a derived batch size taken back to null, so that it follows a mini batch set later."""
    if origins[".".join(map(str, BATCH))][-1].kind != "default":
        return dict(values)
    return {**values, "data": {**values["data"], BATCH[-1]: None}}
