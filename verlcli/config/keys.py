"""What the config schema knows about a key: its part of the schema, its default, where else its name occurs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

from verlcli.resources import load_schema

KeyPath = tuple[str | int, ...]
SHORT_FORMS = ("extends", "actor_rollout_ref", "fsdp_config")  # ways to write; never part of a resolved config


def dotted(path: Sequence[str | int]) -> str:
    """`("a", 0, "b")` -> `a.0.b`."""
    return ".".join(str(part) for part in path)


def schema_at(path: Sequence[str | int]) -> dict[str, Any] | None:
    """Part of the schema for `path`; `{}` inside a free map, None for a key that does not exist."""
    node = load_schema("config")
    for part in path:
        if isinstance(part, int) or ("items" in node and part.isdigit()):
            node = node.get("items", {})
        elif "properties" in node:
            if part not in node["properties"]:
                return None
            node = node["properties"][part]
        elif accepts(node, "object") or not node:
            return {}
        else:
            return None
    return node


def accepts(node: dict[str, Any], kind: str) -> bool:
    """Whether a schema node allows JSON type `kind`."""
    types = node.get("type", ())
    return kind == types or (not isinstance(types, str) and kind in types)


def default_at(node: dict[str, Any]) -> Any:
    """Default of a schema node: its `default`, or its properties' defaults for a section."""
    if "properties" in node:
        skipped = SHORT_FORMS if "$schema" in node else ()  # short forms stand at the top level alone
        return {key: default_at(child) for key, child in node["properties"].items() if key not in skipped}
    return deepcopy(node.get("default"))


def plain(value: Any) -> Any:
    """A copy of nested mappings and sequences as the loader makes them: dicts and lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@lru_cache(maxsize=1)
def known_keys() -> tuple[tuple[str, ...], ...]:
    """Every key of a resolved config, sections before their keys, short forms left out."""
    return tuple(path for path in _walk(load_schema("config"), ()) if path[0] not in SHORT_FORMS)


def _walk(node: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for key, child in node.get("properties", {}).items():
        yield (*path, key)
        yield from _walk(child, (*path, key))
