"""Layers -> one tree of values on top of the schema's defaults, with the history of every leaf."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from verlcli.config.keys import SHORT_FORMS, KeyPath, default_at, dotted, schema_at
from verlcli.config.layers import REMOVE, Layer, Origin, Setting
from verlcli.config.problems import Problem
from verlcli.resources import load_schema


@dataclass(slots=True)
class Merged:
    """See `Resolved` for the fields."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, tuple[Origin, ...]] = field(default_factory=dict)
    places: dict[KeyPath, Origin] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def merge_layers(layers: Iterable[Layer]) -> Merged:
    """Merge `layers`, lowest first, over the schema's defaults."""
    merged = Merged(default_at(load_schema("config")))
    _record_defaults(merged, (), merged.values, "default")
    for layer in layers:
        for setting in layer.settings:
            _apply(merged, setting)
        merged.places.update(layer.places)
    return merged


def _record_defaults(merged: Merged, path: KeyPath, value: Any, label: str) -> None:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            _record_defaults(merged, (*path, key), child, label)
    else:
        origin = Origin("default", label, value, dotted(path))
        merged.origins[path] = (*merged.origins.get(path, ()), origin)


def _apply(merged: Merged, setting: Setting) -> None:
    parent: Any = merged.values
    for depth, key in enumerate(setting.path[:-1], start=1):
        if not isinstance(parent.get(key), _passable(setting, depth)):
            if setting.value is REMOVE:
                merged.problems.append(_no_such_key(setting))
                return
            _open_section(merged, parent, setting.path[:depth])
        parent = parent[key]
        if isinstance(parent, list):
            _apply_in_list(merged, parent, setting, depth)
            return
    if setting.value is REMOVE:
        _remove(merged, parent, setting)
    else:
        _set(merged, parent, setting)


def _passable(setting: Setting, depth: int) -> tuple[type, ...]:
    """What may stand at `setting.path[:depth]` for the path to go on: only a dotted key can mean an item of a list."""
    names_item = str(setting.path[depth]).isdecimal() or setting.value is REMOVE
    return (dict, list) if names_item and setting.origin.kind not in ("preset", "file") else (dict,)


def _open_section(merged: Merged, parent: dict[str | int, Any], path: KeyPath) -> None:
    """Put a mapping where a scalar, or nothing, was."""
    _forget(merged, path, parent.get(path[-1]))
    node = _own_schema(path) or {}
    parent[path[-1]] = default_at(node) if "properties" in node else {}
    if parent[path[-1]]:
        _record_defaults(merged, path, parent[path[-1]], "default")


def _set(merged: Merged, parent: dict[str | int, Any], setting: Setting) -> None:
    path, old = setting.path, parent.get(setting.path[-1])
    if setting.value == {} and isinstance(old, dict):
        return  # maps merge
    if setting.value is None and (_own_schema(path) or {}).get("default") == {}:
        # Null empties a free map; as maps merge, `{}` could not.
        setting = replace(setting, value={}, origin=replace(setting.origin, value={}))
    past = merged.origins.get(path, ())
    _forget(merged, path, old)
    parent[path[-1]] = list(setting.value) if isinstance(setting.value, list) else setting.value
    merged.origins[path] = (*past, setting.origin)
    merged.places[path] = setting.origin


def _forget(merged: Merged, path: KeyPath, value: Any) -> None:
    """Drop what is known of the old `value` at `path` and of all below it."""
    merged.origins.pop(path, None)
    merged.places.pop(path, None)
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        _forget(merged, (*path, key), child)


def _remove(merged: Merged, parent: dict[str | int, Any], setting: Setting) -> None:
    path, node = setting.path, _own_schema(setting.path)
    if not node and path[-1] not in parent:
        merged.problems.append(_no_such_key(setting))
        return
    past = merged.origins
    merged.origins = dict(past)
    _forget(merged, path, parent.pop(path[-1], None))
    if node:
        parent[path[-1]] = default_at(node)
        _record_defaults(merged, path, parent[path[-1]], f"default ({setting.origin.label} removed the value)")
        for leaf in [found for found in merged.origins if found[: len(path)] == path]:
            merged.origins[leaf] = past.get(leaf, ()) + merged.origins[leaf]


def _apply_in_list(merged: Merged, items: list[Any], setting: Setting, depth: int) -> None:
    """Replace or remove one item of the list at `setting.path[:depth]`; the list as a whole gets the new origin."""
    path, tail = setting.path[:depth], setting.path[depth:]
    index = int(tail[0]) if str(tail[0]).isdecimal() else len(items)
    if len(tail) > 1 or index >= len(items):
        merged.problems.append(_no_such_item(setting, path, len(items)))
        return
    if setting.value is REMOVE:
        del items[index]
        for number in range(len(items) + 1):
            merged.places.pop((*path, number), None)
    else:
        items[index] = setting.value
        merged.places.update({(*path, index): setting.origin})
    origin = Origin(setting.origin.kind, setting.origin.label, list(items), setting.origin.written)
    merged.origins[path] = (*merged.origins.get(path, ()), origin)
    merged.places[path] = origin


def _own_schema(path: KeyPath) -> dict[str, Any] | None:
    return None if path[0] in SHORT_FORMS else schema_at(path)


def _no_such_key(setting: Setting) -> Problem:
    return _unfit(setting, "VRL001", "nothing to remove: no such key")


def _no_such_item(setting: Setting, path: KeyPath, length: int) -> Problem:
    choice = f"its items are 0 to {length - 1}" if length else "it is empty"
    return _unfit(setting, "VRL003", f"no such item in the list {dotted(path)}; {choice}")


def _unfit(setting: Setting, code: str, message: str) -> Problem:
    return Problem(code, "error", dotted(setting.path), message, origin=setting.origin.label)
