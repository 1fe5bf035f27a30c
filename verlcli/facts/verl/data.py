"""The facts in `keys.json`, read once. `scripts/verl_facts.py` writes the file; its layout is explained here.

`keys`: key -> up to three flat lists of value, set, value, set ...: its default in the YAML, its type, and its default
where the dataclass alone has it. `sets`: hexadecimal masks over `trees`, which are `version/tree/engine`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("keys.json")
DEFAULT, TYPE, EXTRA = range(3)  # the lists of a row
Row = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Facts:
    """Parsed `keys.json`; shared by all callers, so do not change it."""

    versions: tuple[str, ...]
    trees: tuple[str, ...]
    sets: tuple[int, ...]  # bit i stands for trees[i]
    keys: Mapping[str, Row]
    groups: Mapping[str, Sequence[Any]]  # config group, with its package -> choice, set, choice, set ...
    modules: Mapping[str, Sequence[Any]]  # module/config name -> entry, tree, engine, whether default, versions
    choices: Mapping[str, Mapping[str, Sequence[str]]]  # version -> config group -> files in it

    def pick(self, flat: Sequence[Any], mask: int) -> Iterator[Any]:
        """Values of a flat list that hold in a tree of `mask`."""
        for index in range(0, len(flat), 2):
            if self.sets[flat[index + 1]] & mask:
                yield flat[index]


@cache
def facts() -> Facts:
    """The facts that ship with the package."""
    raw = json.loads(FILE.read_text(encoding="utf-8"))
    sets = tuple(int(mask, 16) for mask in raw.pop("sets"))
    return Facts(versions=tuple(raw.pop("versions")), trees=tuple(raw.pop("trees")), sets=sets, **raw)


@cache
def tree_mask(version: str, tree: str | None = None, engine: str | None = None) -> int:
    """Bits of the trees of a version, of one entry's tree or engine if given."""
    wanted = (version, tree, engine)
    return sum(1 << index for index, name in enumerate(facts().trees) if _fits(name.split("/"), wanted))


def _fits(parts: Sequence[str], wanted: Sequence[str | None]) -> bool:
    return all(want is None or want == part for part, want in zip(parts, wanted, strict=True))


def part(row: Row, which: int) -> Sequence[Any]:
    """One flat list of a row; empty lists at its end are not stored."""
    return row[which] if which < len(row) else ()
