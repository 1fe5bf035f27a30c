"""Faults of layout: tabs, and lines that start a little too far right or left."""

from __future__ import annotations

import random
from collections.abc import Iterator

from mutants.base import REFUSED, Case, Entry, Preset, dotted, legal, text_of


def tabs(base: Preset, rng: random.Random) -> Iterator[Case]:
    """A line indented with a tab."""
    for entry in base.entries:
        if entry.indent:
            lines = list(base.lines)
            lines[entry.number - 1] = "\t" * (len(entry.path) - 1) + lines[entry.number - 1].lstrip()
            name = f"{dotted(entry.path)} after a tab"
            yield Case("tab", name, text_of(lines), (REFUSED,), entry.number, wants=("spaces",))


def slips(base: Preset, rng: random.Random) -> Iterator[Case]:
    """A key one or two spaces too far right, or one or two too far left; the key's name must be said."""
    for entry in base.leaves:
        for shift in (1, -1, 2, -2):
            case = _slip(base, entry, shift)
            if case is not None:
                yield case
    for entry in base.sections:
        if len(entry.path) == 1:
            for shift in (1, 2):
                case = _slip(base, entry, shift)
                if case is not None:
                    yield case


def _slip(base: Preset, entry: Entry, shift: int) -> Case | None:
    if len(entry.indent) + shift < 0 or _stays_legal(base, entry, shift):
        return None
    lines = list(base.lines)
    line = lines[entry.number - 1].lstrip()
    lines[entry.number - 1] = " " * (len(entry.indent) + shift) + line
    name = f"{dotted(entry.path)} shifted by {shift:+d}"
    return Case("indent slip", name, text_of(lines), (REFUSED, "VRL001"), entry.number, wants=(entry.path[-1],))


def _stays_legal(base: Preset, entry: Entry, shift: int) -> bool:
    """Whether the shifted line is correct YAML with known keys, or of a map that takes any key."""
    section = entry.path[:-1]
    beside = [other for other in base.entries if other.path[:-1] == section and other.path != entry.path]
    # Alone in its section a key may stand at any depth below it.
    alone = not beside and bool(section) and shift > -2
    upward = shift == -2 and legal((*section[:-1], entry.path[-1]))
    above = max(
        (other for other in beside if other.number < entry.number), key=lambda other: other.number, default=None
    )
    in_free_map = shift == 2 and above is not None and above.node.get("additionalProperties") is True
    return alone or upward or in_free_map
