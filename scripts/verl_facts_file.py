"""The file that `verl_facts.py` writes: every fact with the set of trees where it holds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verl_facts_source import Dataclasses, Field

MAX_TEXT = 300  # characters of a default
TABLES = ("default", "type", "extra", "groups")
Table = dict[str, dict[str, int]]  # name -> JSON text of a value -> mask


@dataclass(frozen=True)
class Launch:
    """One way to start verl: a module, one of its config names, and the engine that it then runs."""

    entry: str
    tree: str  # the entry whose tree it shares
    module: str
    folder: Path
    config: str
    engine: str
    overrides: tuple[str, ...]
    default: bool  # whether the module starts this one by itself


def leaves(node: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flat `key, default` pairs; an empty mapping is a leaf with default {}."""
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{key}.")
        else:
            yield key, value


class Facts:
    """Everything found so far, each fact with a bit mask of the trees where it holds."""

    def __init__(self) -> None:
        self.trees: list[str] = []
        self.modules: dict[str, list[Any]] = {}  # module/config -> entry, tree, engine, whether default, versions
        self.tables: dict[str, Table] = {name: defaultdict(lambda: defaultdict(int)) for name in TABLES}

    def add_module(self, version: str, launch: Launch) -> None:
        """Record how a module starts."""
        row = [launch.entry, launch.tree, launch.engine, launch.default]
        self.modules.setdefault(f"{launch.module}/{launch.config}", [*row, []])[-1].append(version)

    def add_tree(self, name: str, tree: dict[str, Any], choices: dict[str, str], classes: Dataclasses) -> None:
        """Record the keys, config groups and dataclass fields of one composed tree."""
        bit = 1 << len(self.trees)
        self.trees.append(name)
        for key, value in leaves(tree):
            self.tables["default"][key][_compact(shortened(value))] |= bit
        for group, choice in choices.items():
            if "/../" not in group:  # sections that a component brings along; nobody overrides them by hand
                self.tables["groups"][group][_compact(choice)] |= bit
        for key, field in classes.fields_of(tree):
            self._field(key, field, bit)

    def _field(self, key: str, field: Field, bit: int) -> None:
        if field.extra:
            self.tables["extra"][key][_compact(field.default)] |= bit
        if field.kind is not None:
            self.tables["type"][key][_compact(field.kind)] |= bit

    def write(self, choices: dict[str, Any], path: Path) -> None:
        """One fact a line, so that a diff reads."""
        sets: dict[int, int] = {}

        def rows(name: str, key: str) -> str:
            found = self.tables[name].get(key, {}).items()
            return "[" + ",".join(f"{value},{sets.setdefault(mask, len(sets))}" for value, mask in found) + "]"

        keys = sorted({*self.tables["default"], *self.tables["extra"]})
        parts = {"keys": {key: _line([rows(name, key) for name in ("default", "type", "extra")]) for key in keys}}
        parts["groups"] = {key: rows("groups", key) for key in sorted(self.tables["groups"])}
        parts["modules"] = {key: _compact(value) for key, value in sorted(self.modules.items())}
        parts["choices"] = {key: _compact(value) for key, value in choices.items()}
        lists = {"versions": list(choices), "trees": self.trees, "sets": [f"{mask:x}" for mask in sets]}
        blocks = [_block(name, "[]", [json.dumps(item) for item in items]) for name, items in lists.items()]
        blocks += [
            _block(name, "{}", [f"{json.dumps(k)}:{v}" for k, v in items.items()]) for name, items in parts.items()
        ]
        path.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


def shortened(value: Any) -> Any:
    """A default too long to be looked at (a chat template) is cut: that it is set is the fact."""
    return value if not isinstance(value, str) or len(value) <= MAX_TEXT else f"{value[:20]}..."


def _line(parts: list[str]) -> str:
    while parts[-1] == "[]" and len(parts) > 1:
        parts = parts[:-1]
    return "[" + ",".join(parts) + "]"


def _block(name: str, brackets: str, lines: list[str]) -> str:
    return f'"{name}":{brackets[0]}\n' + ",\n".join(lines) + f"\n{brackets[1]}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
