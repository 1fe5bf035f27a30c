"""Document -> Layer: one source's values as a flat list of settings, each with where it was written.

Here the document's other spellings become the one that the rest of the road knows: short forms of sections, one value
where a list is meant, an empty section, a path relative to the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from verlcli.config.keys import KeyPath, accepts, dotted, schema_at
from verlcli.config.loader import Document

Kind = Literal["default", "preset", "file", "env", "override", "flag"]
REMOVE: Any = object()  # value of a setting that takes its key back to the default

_FILE_LISTS = {("data", "train_files"), ("data", "val_files")}
_MODELS = {("model", "path"), ("critic", "path"), ("reference", "path"), ("reward_model", "path")}
_SHARING_ROLES = ("actor", "reference", "rollout")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one value was written.

    Attributes:
        kind: the layer.
        label: for people: `a.yaml:3:5`, `-o #2`, `env VERL_CFG__A__B`, `--output-dir`, `default`.
        value: the value there.
        written: dotted key as written, before short forms were expanded.
        file: file as the user named it; None for layers without text.
        line, column: of the value; key_line, key_column: of its key; 1-based, 0 without text.
    """

    kind: Kind
    label: str
    value: Any = None
    written: str = ""
    file: str | None = None
    line: int = 0
    column: int = 0
    key_line: int = 0
    key_column: int = 0

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class Setting:
    """One leaf (scalar, list or empty mapping) that a layer sets."""

    path: KeyPath
    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Layer:
    """One source's settings in order, and the origin of every node (sections and list items too) by path."""

    settings: tuple[Setting, ...]
    places: dict[KeyPath, Origin] = field(default_factory=dict)


def document_layer(document: Document, kind: Kind, label: str | None = None, prefix: KeyPath = ()) -> Layer:
    """Layer of a document's values below `prefix`; `label` replaces file positions for text that is no file."""
    flat = list(_flatten(document, document.values, (), kind, label, prefix))
    nodes = [node for node, _ in flat]
    leaves = [node for node, is_leaf in flat if is_leaf]
    settings = tuple(
        _normalise(setting, document.root) for setting in _expand(leaves) if setting.path and not _says_nothing(setting)
    )
    places = {setting.path: setting.origin for setting in _expand(nodes)}
    return Layer(settings, places)


def removal_layer(path: KeyPath, kind: Kind, label: str) -> Layer:
    """Layer that takes `path` back to its default."""
    setting = Setting(path, REMOVE, Origin(kind, label, written=dotted(path)))
    return Layer(tuple(_expand([setting])))


def _flatten(
    document: Document, value: Any, path: KeyPath, kind: Kind, label: str | None, prefix: KeyPath
) -> Iterator[tuple[Setting, bool]]:
    """Every node with whether it is a leaf; items of a list are nodes, but the list is the leaf."""
    full = (*prefix, *path)
    setting = Setting(full, value, _origin(document, value, path, kind, label, full))
    is_section = isinstance(value, dict) and bool(value)
    yield setting, not is_section
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _flatten(document, child, (*path, key), kind, label, prefix)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            for node, _ in _flatten(document, item, (*path, index), kind, label, prefix):
                yield node, False


def _origin(document: Document, value: Any, path: KeyPath, kind: Kind, label: str | None, full: KeyPath) -> Origin:
    if label is not None:
        return Origin(kind, label, value, dotted(full))
    mark = document.marks[path]
    place = f"{document.file}:{mark.line}:{mark.column}"
    return Origin(
        kind, place, value, dotted(full), document.file, mark.line, mark.column, mark.key_line, mark.key_column
    )


def _expand(settings: Iterable[Setting]) -> list[Setting]:
    """Short forms spelt out; a key set under its own name stands after them, and so wins within its layer."""
    shared: list[Setting] = []
    own: list[Setting] = []
    for setting in settings:
        targets = _targets(setting.path)
        (own if targets == [setting.path] else shared).extend(replace(setting, path=target) for target in targets)
    return shared + own


def _targets(path: KeyPath) -> list[KeyPath]:
    if path[:1] == ("fsdp_config",):
        return [("training", *path)]
    if path[:1] == ("actor_rollout_ref",) and len(path) > 1 and schema_at(path[:2]) is not None:
        return [(role, *path[1:]) for role in _SHARING_ROLES if schema_at((role, path[1])) is not None]
    return [path]  # unknown keys too, to be reported as they were written


def _says_nothing(setting: Setting) -> bool:
    """An empty section: every key of it keeps what lower layers say."""
    node = schema_at(setting.path)
    return setting.value in (None, {}) and bool(node) and "properties" in (node or {})


def _normalise(setting: Setting, base: Path) -> Setting:
    value = _listed(setting.path, setting.value)
    value = _absolute(setting.path[:2], value, base, setting.origin.kind)
    if value is setting.value:
        return setting
    return replace(setting, value=value, origin=replace(setting.origin, value=value))


def _listed(path: KeyPath, value: Any) -> Any:
    node = schema_at(path) or {}
    types = node.get("type", ())
    # "array" named first: a list is meant, and one value may stand for it.
    if types[:1] == ["array"] and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return [value] if any(accepts(node, kind) for kind in _json_types(value)) else value
    return value


def _json_types(value: str | float) -> tuple[str, ...]:
    return ("string",) if isinstance(value, str) else ("number", "integer")


def _absolute(key: KeyPath, value: Any, base: Path, kind: Kind) -> Any:
    if isinstance(value, list):
        return [_absolute(key, item, base, kind) for item in value]
    if not isinstance(value, str) or not value or value.startswith("pkg:") or "://" in value:
        return value
    if key in _FILE_LISTS:
        # A preset names data that it does not ship: then the user's folder is meant.
        return _join(base if kind != "preset" or os.path.exists(base / value) else Path.cwd(), value)
    if key in _MODELS:
        return _join(base, value) if _is_path(base, value) else value
    if key == ("reward", "function"):
        file, colon, function = value.rpartition(":")
        if file.endswith(".py"):
            return f"{_join(base, file)}{colon}{function}"
        return _join(base, value) if value.endswith(".py") else value
    return value


def _is_path(base: Path, value: str) -> bool:
    if value.startswith(("./", "../", "~", "/", ".\\", "..\\")) or value in (".", "..") or value.endswith(".gguf"):
        return True
    return os.path.exists(base / value)


def _join(base: Path, value: str) -> str:
    return os.path.normpath(base / os.path.expanduser(value))
