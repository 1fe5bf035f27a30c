"""Faults of keys: misspelt, at the wrong level, under a name of another trainer, set twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from mutants.base import Case, Entry, Path_, Preset, dotted, legal, node_at, sample, text_of
from mutants.foreign import FOREIGN

_LETTERS = "abcdefghijklmnopqrstuvwxyz_"


def _drop(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word))
    return word[:at] + word[at + 1 :]


def _insert(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word) + 1)
    return word[:at] + rng.choice(_LETTERS) + word[at:]


def _replace(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word))
    return word[:at] + rng.choice(_LETTERS) + word[at + 1 :]


def _swap(word: str, rng: random.Random) -> str:
    at = rng.randrange(len(word) - 1)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _two(word: str, rng: random.Random) -> str:
    return rng.choice((_drop, _insert, _replace))(rng.choice((_insert, _replace, _swap))(word, rng), rng)


def _camel(word: str, _: random.Random) -> str:
    first, *rest = word.split("_")
    return first + "".join(part.capitalize() for part in rest)


EDITS: dict[str, tuple[int, Callable[[str, random.Random], str]]] = {  # name -> shortest word, edit
    "a letter short": (4, _drop),
    "a letter more": (3, _insert),
    "a wrong letter": (4, _replace),
    "letters swapped": (3, _swap),
    "two slips": (7, _two),
    "capitals": (1, lambda word, _: word.upper()),
    "camel case": (3, _camel),
    "dashes": (3, lambda word, _: word.replace("_", "-")),
}


def distance(one: str, other: str) -> int:
    """Edits (insert, drop, replace, swap neighbours) between two words; capitals and dashes count for nothing."""
    one, other = one.lower().replace("-", "_"), other.lower().replace("-", "_")
    rows = [list(range(len(other) + 1))]
    for i, left in enumerate(one, start=1):
        row = [i]
        for j, right in enumerate(other, start=1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (left != right))
            if i > 1 and j > 1 and (left, one[i - 2]) == (other[j - 2], right):
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def misspelt(base: Preset, rng: random.Random) -> Iterator[Case]:
    """A key or section with one or two slips; where a slip comes as near to another key, that one may be proposed."""
    for entry in base.entries:
        for edit, (shortest, change) in EDITS.items():
            word = change(entry.path[-1], rng) if len(entry.path[-1]) >= shortest else entry.path[-1]
            if word == entry.path[-1] or legal((*entry.path[:-1], word)):
                continue
            lines = list(base.lines)
            lines[entry.number - 1] = lines[entry.number - 1].replace(entry.path[-1], word, 1)
            name = f"{dotted(entry.path)} -> {word} ({edit})"
            yield Case("misspelt key", name, text_of(lines), ("VRL001",), entry.number, wants=_nearest(word, entry))


def _nearest(word: str, entry: Entry) -> tuple[str, ...]:
    siblings = node_at(entry.path[:-1]) or {}
    least = distance(word, entry.path[-1])
    return tuple(f"'{key}'" for key in siblings["properties"] if distance(word, key) <= least)


def wrong_level(base: Preset, rng: random.Random) -> Iterator[Case]:
    """A key moved to the top level or into another section, and a section moved into another."""
    for entry in base.leaves:
        homes = [section for section in base.sections if not legal((*section.path, entry.path[-1]))]
        for home in sample(rng, homes, 3):
            yield _moved(base, entry, home, _section_of(entry))
        if not legal(entry.path[-1:]):
            yield _moved(base, entry, None, _section_of(entry))
    for entry in base.sections:
        homes = [
            home
            for home in base.sections
            if home.path[: len(entry.path)] != entry.path and not legal((*home.path, entry.path[-1]))
        ]
        for home in sample(rng, homes, 2):
            yield _moved(base, entry, home, _section_of(entry))


def _section_of(entry: Entry) -> str:
    # A key of several sections belongs to each of them; that its own is named is enough.
    if entry.path[0] == "actor_rollout_ref" and len(entry.path) > 1:
        return "`actor:`"  # one of those that the short form stands for
    return f"`{dotted(entry.path[:-1])}:`" if len(entry.path) > 1 else "the top level"


def _moved(base: Preset, entry: Entry, home: Entry | None, wanted: str) -> Case:
    lines = list(base.lines)
    last = base.end(entry)
    block = lines[entry.number - 1 : last]
    del lines[entry.number - 1 : last]
    shift = ("  " + home.indent) if home else ""
    block = [shift + line[len(entry.indent) :] for line in block]
    at = len(lines)
    if home:
        at = home.number if home.number < entry.number else home.number - len(block)
    lines[at:at] = block
    name = f"{dotted(entry.path)} moved to {dotted(home.path) if home else 'the top level'}"
    return Case("key at wrong level", name, text_of(lines), ("VRL001",), at + 1, wants=(wanted,))


def renamed(base: Preset, rng: random.Random) -> Iterator[Case]:
    """A key under the name that verl or another trainer gives it, alone or inside that trainer's section."""
    for path, value, targets in sample(rng, list(FOREIGN), 40):
        target: Path_ = tuple(targets[0].split("."))
        entry = base.find(target)
        lines = [line for number, line in enumerate(base.lines, 1) if entry is None or number != entry.number]
        text, line = _inserted(lines, path, value)
        wants = tuple(f"'{name}'" for name in targets)
        yield Case("renamed key", f"{dotted(path)} for {targets[0]}", text, ("VRL001",), line, wants=wants)


def _inserted(lines: list[str], path: Path_, value: str) -> tuple[str, int]:
    """`path` as far as it exists in the file, then new lines; the number of the first line that is not ours."""
    depth = at = 0
    for number, line in enumerate(lines, start=1):
        if depth < len(path) - 1 and line.split("#")[0].rstrip() == f"{'  ' * depth}{path[depth]}:":
            depth, at = depth + 1, number
    at = at if depth else len(lines)
    new = [f"{'  ' * level}{path[level]}:" for level in range(depth, len(path) - 1)]
    new.append(f"{'  ' * (len(path) - 1)}{path[-1]}: {value}")
    foreign = next(level for level in range(len(path)) if node_at(path[: level + 1]) is None)
    lines = [*lines[:at], *new, *lines[at:]]
    return text_of(lines), at + 1 + foreign - depth


def duplicate(base: Preset, rng: random.Random) -> Iterator[Case]:
    """A key twice in its section, next to itself or at the section's end, and a section twice in the file."""
    for entry in base.leaves:
        section = base.find(entry.path[:-1])
        for at in sorted({base.end(entry), base.end(section) if section else len(base.lines)}):
            lines = list(base.lines)
            lines[at:at] = [lines[entry.number - 1] if entry.value else f"{entry.indent}{entry.path[-1]}: {{}}"]
            name = f"{dotted(entry.path)} again on line {at + 1}"
            yield Case("duplicate key", name, text_of(lines), ("VRL006",), at + 1, other=entry.number)
    for entry in base.sections:
        if len(entry.path) == 1:
            child = rng.choice(list(entry.node["properties"]))
            lines = [*base.lines, f"{entry.path[0]}:", f"  {child}: null"]
            line, name = len(base.lines) + 1, f"section {entry.path[0]} again"
            yield Case("duplicate key", name, text_of(lines), ("VRL006",), line, other=entry.number)
