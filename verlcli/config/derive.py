"""Merged values -> values with the numbers that follow from others filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verlcli.config.algorithms import algorithm_defaults
from verlcli.config.keys import KeyPath, dotted
from verlcli.config.layers import Origin

BATCH: KeyPath = ("data", "train_batch_size")
_MINI: KeyPath = ("training", "ppo_mini_batch_size")
_SMALLEST_BATCH = 64  # prompts
_BOUNDS = ("clip_ratio_low", "clip_ratio_high")  # of `algorithm`; null is its `clip_ratio`
_NAMED = "algorithm.name: {}"  # label of a default that follows from the algorithm
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


def set_by_algorithm(values: Mapping[str, Any], origins: Mapping[KeyPath, tuple[Origin, ...]]) -> dict[str, Origin]:
    """The defaults that `algorithm.name` changes, by key of `algorithm`: only those of keys that nobody wrote, and no
    bound of the ratio where `clip_ratio`, which stands for both, was written."""

    def is_written(key: str) -> bool:
        return any(origin.kind != "default" for origin in origins.get(("algorithm", key), ())[-1:])

    found = algorithm_defaults(values)
    label = _NAMED.format(values["algorithm"]["name"]) if found else ""
    bounds = _BOUNDS if is_written("clip_ratio") else ()
    return {
        key: Origin("default", label, value, f"algorithm.{key}")
        for key, value in found.items()
        if key not in bounds and not is_written(key)
    }


def as_written(values: Mapping[str, Any], origins: Mapping[str, tuple[Origin, ...]]) -> dict[str, Any]:
    """`values` without what was derived: the batch size is null again, so that it follows a mini batch set later, and
    keys of `algorithm` that nobody wrote are gone, so that they follow another name."""
    found = dict(values)
    if origins[dotted(BATCH)][-1].kind == "default":
        found["data"] = {**values["data"], BATCH[-1]: None}
    section = values["algorithm"].items()
    found["algorithm"] = {key: value for key, value in section if origins[f"algorithm.{key}"][-1].kind != "default"}
    return found
