"""What a mutant is, and a preset's text cut into lines by a reader of its own (not the loader under test)."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "schemas" / "config.schema.json").read_text(encoding="utf-8"))
SHORT_FORMS = ("extends", "actor_rollout_ref", "fsdp_config")
REFUSED = "refused"  # code of text that cannot be read at all

Path_ = tuple[str, ...]
_LINE = re.compile(r"( *)([A-Za-z_]\w*):(?: +([^#]*?))?( +#.*)?")


@dataclass(frozen=True, slots=True)
class Case:
    """One fault.

    Attributes:
        kind: row of the table.
        name: preset and what was done to it.
        text: the file.
        overrides: what follows `-o`.
        codes: any of them is right.
        line: where the fault stands in the file; 0 when it stands in `-o #1`.
        wants: any of these must occur in message or suggestion; empty when nothing can be proposed.
        other: line of the other key of a conflict; 0 without one.
    """

    kind: str
    name: str
    text: str
    codes: tuple[str, ...]
    line: int = 0
    overrides: tuple[str, ...] = ()
    wants: tuple[str, ...] = ()
    other: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """A line `key: value` of a preset, 1-based; `value` is empty for a section."""

    number: int
    path: Path_
    value: str
    comment: str

    @property
    def indent(self) -> str:
        return "  " * (len(self.path) - 1)

    @property
    def node(self) -> dict[str, Any]:
        return node_at(self.path) or {}


@dataclass(frozen=True, slots=True)
class Preset:
    """A preset's name, lines and entries; keys of free maps are no entries."""

    name: str
    lines: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def leaves(self) -> list[Entry]:
        return [entry for entry in self.entries if "properties" not in entry.node]

    @property
    def sections(self) -> list[Entry]:
        return [entry for entry in self.entries if "properties" in entry.node]

    def find(self, path: Path_) -> Entry | None:
        return next((entry for entry in self.entries if entry.path == path), None)

    def end(self, entry: Entry) -> int:
        """Last line of what stands under `entry`."""
        last = entry.number
        for number in range(entry.number + 1, len(self.lines) + 1):
            line = self.lines[number - 1]
            if line.strip() and not line.strip().startswith("#"):
                if len(line) - len(line.lstrip()) <= len(entry.indent):
                    break
                last = number
        return last


def preset(path: Path) -> Preset:
    """Read one preset file; what one leaves to its user is put in."""
    base = parsed(path.stem, path.read_text(encoding="utf-8"))
    for choices, value in (
        (("model.path", "model.shape"), "some/model"),
        (("data.train_files", "data.source"), "a.jsonl"),
    ):
        found = [base.find(tuple(key.split("."))) for key in choices]
        if all(entry is None or entry.value in ("null", "[]") for entry in found):
            base = parsed(base.name, with_value(base, tuple(choices[0].split(".")), value)[0])
    micro = base.find(("training", "ppo_micro_batch_size_per_gpu"))
    if micro is not None and micro.value == "null":  # verl asks its user for one of the two
        base = parsed(base.name, with_value(base, ("training", "use_dynamic_bsz"), "true")[0])
    return base


def parsed(name: str, text: str) -> Preset:
    """Cut a text in block style with two spaces a level into entries."""
    lines = tuple(text.splitlines())
    return Preset(name, lines, tuple(_entries(lines)))


def _entries(lines: tuple[str, ...]) -> Iterator[Entry]:
    trail: Path_ = ()
    for number, line in enumerate(lines, start=1):
        match = _LINE.fullmatch(line)
        if match:
            trail = (*trail[: len(match[1]) // 2], match[2])
            if node_at(trail) is not None:
                yield Entry(number, trail, match[3] or "", match[4] or "")


def node_at(path: Path_) -> dict[str, Any] | None:
    """Part of the schema for a key; None for keys that do not exist and for those inside free maps."""
    node = SCHEMA
    for part in path:
        if part not in node.get("properties", {}):
            return None
        node = node["properties"][part]
    return node


def legal(path: Path_) -> bool:
    """Whether a key may stand there: it exists, or lies in a free map."""
    for end in range(1, len(path) + 1):
        node = node_at(path[:end])
        if node is None:
            return False
        if node.get("additionalProperties") is True:
            return True
    return True


def leaves(node: dict[str, Any] = SCHEMA, path: Path_ = ()) -> Iterator[Path_]:
    """Every key with a value, short forms left out."""
    for key, child in node.get("properties", {}).items():
        if not path and key in SHORT_FORMS:
            continue
        if "properties" in child:
            yield from leaves(child, (*path, key))
        elif child.get("additionalProperties") is not True:
            yield (*path, key)


def types(node: dict[str, Any]) -> tuple[str, ...]:
    """JSON types that a schema node accepts."""
    kinds = node.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def with_value(base: Preset, path: Path_, value: str) -> tuple[str, int]:
    """The preset's text with `path: value`, in its old line or in a new one, and the number of that line."""
    entry = base.find(path)
    lines = list(base.lines)
    if entry is not None:
        lines[entry.number - 1] = f"{entry.indent}{path[-1]}: {value}{entry.comment}"
        return text_of(lines), entry.number
    depth = next(end for end in range(len(path) - 1, -1, -1) if end == 0 or base.find(path[:end]))
    above = base.find(path[:depth])
    at = above.number if above else len(lines)
    new = [f"{'  ' * level}{path[level]}:" for level in range(depth, len(path) - 1)]
    new.append(f"{'  ' * (len(path) - 1)}{path[-1]}: {value}")
    lines[at:at] = new
    return text_of(lines), at + len(new)


def text_of(lines: list[str]) -> str:
    """Lines as a file."""
    return "\n".join(lines) + "\n"


def dotted(path: Path_) -> str:
    """`a.b`."""
    return ".".join(path)


def sample(rng: random.Random, items: list[Any], count: int) -> list[Any]:
    """At most `count` of `items`, in their order."""
    chosen = sorted(rng.sample(range(len(items)), min(count, len(items))))
    return [items[index] for index in chosen]
