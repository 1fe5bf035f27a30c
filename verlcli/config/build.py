"""Checked values -> the typed, frozen Config."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from verlcli.config.derive import with_batch_size
from verlcli.config.types import Config


def build_config(values: Mapping[str, Any]) -> Config:
    """Typed config from complete values that fit the schema; lists become tuples, numbers take their field's type."""
    config: Config = _build(Config, with_batch_size(values))
    return config


def _build(kind: Any, values: Mapping[str, Any]) -> Any:
    return kind(**{name: _convert(hint, values[name]) for name, hint in _hints(kind).items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    resolved = get_type_hints(kind, vars(sys.modules[kind.__module__]))
    return {field.name: resolved[field.name] for field in fields(kind)}


def _convert(hint: Any, value: Any) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return _build(hint, value)
    choices = get_args(hint) or (hint,)
    if isinstance(value, list):
        return tuple(_convert(_item(choices), item) for item in value)
    # JSON has one kind of number: `lr: 1` is 1.0, and `n: 8.0` is 8.
    if isinstance(value, int) and not isinstance(value, bool) and float in choices and int not in choices:
        return float(value)
    if isinstance(value, float) and int in choices and float not in choices:
        return int(value)
    return value


def _item(choices: tuple[Any, ...]) -> Any:
    """Type of a tuple's items, from `tuple[X, ...]` or a union that has one."""
    for choice in choices:
        inner = get_args(choice)
        if inner:
            return inner[0]
    return choices[0]
