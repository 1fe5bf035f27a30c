"""All mutants of all presets: seeded, so that every run has the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from mutants import conflicts, keys, layout, values
from mutants.base import ROOT, Case, Preset, preset, sample, text_of

KINDS: dict[str, Callable[[Preset, random.Random], Iterator[Case]]] = {
    "misspelt key": keys.misspelt,
    "key at wrong level": keys.wrong_level,
    "renamed key": keys.renamed,
    "wrong type": values.wrong_type,
    "out of range": values.out_of_range,
    "bad choice": values.bad_enum,
    "conflicting pair": conflicts.conflicting,
    "duplicate key": keys.duplicate,
    "tab": layout.tabs,
    "indent slip": layout.slips,
}
OVERRIDE = "by -o"
_AS_OVERRIDE = ("misspelt key", "renamed key", "wrong type", "out of range", "bad choice")


def cases(per_kind: int = 22, seed: int = 7) -> list[Case]:
    """At most `per_kind` mutants of each kind from each preset, and the same faults given as `-o` where they can be."""
    found: list[Case] = []
    for file in sorted((ROOT / "presets").glob("*.yaml")):
        base = preset(file)
        for kind, make in KINDS.items():
            rng = random.Random(f"{seed} {base.name} {kind}")
            chosen = sample(rng, list(make(base, rng)), per_kind)
            chosen = [replace(case, name=f"{base.name}: {case.name}") for case in chosen]
            found += chosen
            if kind in _AS_OVERRIDE:
                given = [_as_override(base, case) for case in sample(rng, chosen, max(1, per_kind // 4))]
                found += [case for case in given if case is not None]
    return found


def _as_override(base: Preset, case: Case) -> Case | None:
    """The changed or added line as `-o KEY=VALUE` on top of the unchanged preset; None where the line has no value."""
    before, lines = list(base.lines), case.text.splitlines()
    line = lines[case.line - 1]
    key, _, value = line.strip().partition(":")
    value = value.split(" #")[0].strip()
    if not value or len(lines) < len(before):
        return None
    section = _trail(lines[: case.line - 1], len(line) - len(line.lstrip()))
    setting = f"{'.'.join((*section, key))}={value}"
    return replace(case, kind=OVERRIDE, text=text_of(before), overrides=(setting,), line=0)


def _trail(lines: list[str], indent: int) -> list[str]:
    """Keys around a line with that indentation."""
    trail: list[str] = []
    for line in reversed(lines):
        depth = len(line) - len(line.lstrip())
        if line.strip() and not line.strip().startswith("#") and depth < indent:
            trail.insert(0, line.strip().partition(":")[0])
            indent = depth
    return trail
