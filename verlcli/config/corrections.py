"""What somebody probably meant by a value that does not fit its key; None where nothing is likely."""

from __future__ import annotations

import math
import re
from typing import Any

from verlcli.config.keys import KeyPath, accepts, default_at, dotted
from verlcli.config.renames import CHOICES
from verlcli.config.wording import closest, shown

_TRUE, _FALSE = ("true", "yes", "on", "y", "1"), ("false", "no", "off", "n", "0")
_NOTHING = ("none", "null", "nil", "")
_NULL_MEANS = re.compile(r"\bNull: ([^.;]+)")  # how the schema's descriptions say it
_ZERO_MEANS = re.compile(r"(?<=[.;] )(0 [a-z][^.;]*)")
_AMOUNT = re.compile(r"([-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([%a-zA-Z/]*)")
_THOUSANDS = {"k": 10**3, "thousand": 10**3, "m": 10**6, "million": 10**6, "b": 10**9, "billion": 10**9}
_SECONDS = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400}


def value_meant(path: KeyPath, node: dict[str, Any], value: Any) -> str | None:
    """Advice for a value of the wrong type."""
    if value is None:
        return _without_null(node)
    if "properties" in node:
        return _keys_meant(value)
    if isinstance(value, list):
        return _single_item(node, value)
    if isinstance(value, dict):
        return _unwrapped(path, value)
    if isinstance(value, str) and value.lower() in _NOTHING and accepts(node, "null"):
        return "write null"
    if accepts(node, "boolean") and str(value).lower() in (*_TRUE, *_FALSE):
        return f"write {'true' if str(value).lower() in _TRUE else 'false'}"
    if isinstance(value, str) and (accepts(node, "number") or accepts(node, "integer")):
        return _amount(path, node, value)
    if not accepts(node, "string"):
        return None
    words = [word for word in node.get("enum", ()) if isinstance(word, str)]
    if words and shown(value) not in words:
        return f"choose one of {', '.join(words)}"
    return f"write '{shown(value)}'"


def _without_null(node: dict[str, Any]) -> str | None:
    default = default_at(node)
    return None if default is None else f"remove the line for the default {shown(default)}"


def _keys_meant(value: Any) -> str | None:
    if isinstance(value, list):
        dashed = bool(value) and all(isinstance(item, dict) for item in value)
        return "remove the dashes before its keys" if dashed else None
    glued = re.fullmatch(r"(\w+):(\S+)", value) if isinstance(value, str) else None
    return f"put a space after the colon: `{glued[1]}: {glued[2]}`" if glued else "write its keys indented below it"


def _single_item(node: dict[str, Any], value: list[Any]) -> str | None:
    if len(value) != 1 or isinstance(value[0], (dict, list)):
        return None
    return f"write {str(value[0]) if isinstance(value[0], str) else shown(value[0])}, without a list around it"


def _unwrapped(path: KeyPath, value: dict[str, Any]) -> str | None:
    if len(value) != 1:
        return None
    name = next(iter(value))
    return f"it has no key '{name}' below it: write one value after `{path[-1]}:`"


def _amount(path: KeyPath, node: dict[str, Any], text: str) -> str | None:
    """A number in quotes, with separators or with a unit."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or len(match[1]) > 30:
        return None
    plain, unit = match[1].replace("_", "").replace(",", ""), match[2].lower()
    factor = _factor(path, node, unit, match[2])
    number = float(plain) * factor
    if not math.isfinite(number) or (not accepts(node, "number") and number != int(number)):
        return None
    return f"write {plain if factor == 1 else format(number, '.10g')}{f', without {match[2]}' if unit else ''}"


def _factor(path: KeyPath, node: dict[str, Any], unit: str, written: str) -> float:
    if unit == "%":
        return 0.01 if node.get("maximum") == 1 else 1
    if "timeout" in dotted(path):
        # `30s`, `30 seconds`; M can only be minutes there.
        return _SECONDS.get(unit, _SECONDS.get(unit.rstrip("s"), 1)) if unit else 1
    return _THOUSANDS.get(unit, 1) if written != "m" else 1


def number_meant(node: dict[str, Any], value: Any) -> str | None:
    """Advice for a value out of range: a percentage, or -1 (or 0) where null or 0 stands for "no limit" or "off"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if node.get("maximum") == 1 and 5 <= value <= 100:
        return f"write {format(value / 100, 'g')} if {format(value, 'g')} % is meant"
    if value not in (-1, 0):
        return None
    null, zero = _NULL_MEANS.search(node["description"]), _ZERO_MEANS.search(node["description"])
    return f"write null, which means: {null[1]}" if null else zero[1] if zero and value else None


def choice_meant(choices: list[Any], value: Any) -> str | None:
    """Advice for a word that is none of `choices`: a slip, another program's word, or one for null."""
    if value is None:
        return None
    if None in choices and str(value).lower() in _NOTHING:
        return "write null"
    word = str(value).lower().removeprefix("torch.")
    known = next((choice for choice in CHOICES.get(word, ()) if choice in choices), None)
    close = known or closest(value, [choice for choice in choices if isinstance(choice, str)])
    return f"did you mean '{close}'?" if close else None
