"""Values against the config schema: every keyword that is broken, with its path.

It knows the keywords that the config schema uses, and a test holds it equal to the jsonschema package on them.
Importing that package takes 40 ms, half of what Typer, rich and YAML take together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from verlcli.config.keys import KeyPath


@dataclass(frozen=True, slots=True)
class Violation:
    """`keyword` of schema `node` does not hold for `value` at `path`; one for each unknown key."""

    keyword: str
    path: KeyPath
    node: dict[str, Any]
    value: Any


_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: _TYPES["number"](value) and (isinstance(value, int) or value.is_integer()),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", lambda value, limit: value >= limit),
    "maximum": ("number", lambda value, limit: value <= limit),
    "exclusiveMinimum": ("number", lambda value, limit: value > limit),
    "exclusiveMaximum": ("number", lambda value, limit: value < limit),
    "minLength": ("string", lambda value, limit: len(value) >= limit),
    "pattern": ("string", lambda value, limit: re.search(limit, value) is not None),
    "minItems": ("array", lambda value, limit: len(value) >= limit),
    "maxItems": ("array", lambda value, limit: len(value) <= limit),
}
KEYWORDS = frozenset({*_LIMITS, "type", "enum", "properties", "additionalProperties", "items"})
"""What is checked; other keywords of the schema (titles, defaults, examples) say nothing about values."""


def violations(node: dict[str, Any], value: Any, path: KeyPath = ()) -> Iterator[Violation]:
    """Every violation of schema `node` by `value`; below a wrong type nothing more is reported."""
    types = node.get("type")
    if types is not None and not any(_TYPES[name](value) for name in ([types] if isinstance(types, str) else types)):
        yield Violation("type", path, node, value)
        return
    if "enum" in node and value not in node["enum"]:
        yield Violation("enum", path, node, value)
    for keyword, (kind, holds) in _LIMITS.items():
        # Not "breaks": NaN is neither below nor above a limit, and gets its own message elsewhere.
        if keyword in node and _TYPES[kind](value) and value == value and not holds(value, node[keyword]):
            yield Violation(keyword, path, node, value)
    yield from _children(node, value, path)


def _children(node: dict[str, Any], value: Any, path: KeyPath) -> Iterator[Violation]:
    if isinstance(value, list) and "items" in node:
        for index, item in enumerate(value):
            yield from violations(node["items"], item, (*path, index))
    elif isinstance(value, dict):
        known = node.get("properties", {})
        for key, child in value.items():
            if key in known:
                yield from violations(known[key], child, (*path, key))
            elif not node.get("additionalProperties", True):
                yield Violation("additionalProperties", (*path, key), node, child)
