"""Sentences for what is wrong with a value or a key, as a colleague would say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from verlcli.config.keys import SHORT_FORMS, KeyPath, dotted, known_keys, schema_at
from verlcli.config.renames import NOTES, RENAMES

TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping of keys",
    "null": "null",
}
_LONGEST_VALUE = 60


def shown(value: Any) -> str:
    """A value as YAML would spell it, shortened."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        text = f"[{', '.join(shown(item) for item in value[:4])}{', ...' if len(value) > 4 else ''}]"
    else:
        text = f"'{value}'" if isinstance(value, str) else str(value)
    text = text.encode("unicode_escape").decode() if not text.isprintable() else text
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def wanted(node: dict[str, Any]) -> str:
    """What a schema node accepts: `a whole number or null`."""
    types = [node["type"]] if isinstance(node["type"], str) else list(node["type"])
    if "properties" in node:
        types = ["object"]
    return any_of(TYPES[name] for name in types)


def any_of(choices: Iterable[object]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last


def closest(text: Any, choices: Sequence[str]) -> str | None:
    """The choice that `text` is likely a misspelling of."""
    folded = {choice.lower(): choice for choice in choices}
    close = get_close_matches(str(text).lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


@dataclass(frozen=True, slots=True)
class KeyAdvice:
    """What to say of an unknown key, and the keys that it may stand for."""

    text: str
    keys: tuple[KeyPath, ...]


def better_key(path: KeyPath) -> str | None:
    """Advice for an unknown key: a sibling it misspells, or the section where it belongs; None when nothing is near."""
    advice = key_advice(path)
    return advice.text if advice else None


def key_advice(path: KeyPath) -> KeyAdvice | None:
    """`better_key` with the keys that are meant: another spelling, another section, another trainer's name, a slip."""
    parent, name = path[:-1], folded(str(path[-1]))
    siblings = {folded(key): key for key in (schema_at(parent) or {}).get("properties", {})}
    if name in siblings:
        return _slip(parent, (siblings[name],))
    homes = [key for key in (*known_keys(), *((form,) for form in SHORT_FORMS)) if key[-1] == name]
    if homes:
        return _elsewhere([key for key in homes if parent and key[0] == parent[0]] or homes)
    if name in RENAMES:
        target = _renamed(name, path)
        note = f", {NOTES[name]}" if name in NOTES else ""
        return KeyAdvice(f"here it is called '{target}'{note}", (tuple(target.split(".")),))
    near = nearest(name, tuple(siblings))
    if near:
        return _slip(parent, tuple(siblings[key] for key in near))
    return _slip_elsewhere(name)


def folded(name: str) -> str:
    """A key as ours are spelt: `trainBatch-Size` -> `train_batch_size`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name)
    return words.replace("-", "_").replace(" ", "_").lower()


def nearest(word: str, choices: Sequence[str]) -> list[str]:
    """The choices that `word` is likely a slip of: the closest one, or two that are equally close."""
    close = get_close_matches(word, choices, n=8, cutoff=0.6)
    counts = {choice: edits(word, choice) for choice in close}
    # Two edits of a short word make any other word.
    counts = {choice: count for choice, count in counts.items() if count <= 1 or count * 3 <= len(choice)}
    return [choice for choice in close if counts.get(choice) == min(counts.values())][:2] if counts else close[:1]


def edits(one: str, other: str) -> int:
    """Fewest letters to insert, drop, replace or swap with their neighbour (optimal string alignment)."""
    above: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        before, above, row = above, row, [i]
        for j, right in enumerate(other, start=1):
            best = min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right))
            swapped = i > 1 and j > 1 and left == other[j - 2] and right == one[i - 2]
            row.append(min(best, before[j - 2] + 1) if swapped else best)
    return row[-1]


def _slip(parent: KeyPath, names: Sequence[str]) -> KeyAdvice:
    quoted = any_of(f"'{name}'" for name in names)
    return KeyAdvice(f"did you mean {quoted}?", tuple((*parent, name) for name in names))


def _slip_elsewhere(name: str) -> KeyAdvice | None:
    names = sorted({key[-1] for key in known_keys()})
    close = get_close_matches(name, names, n=1, cutoff=0.8)
    if not close:
        return None
    keys = [key for key in known_keys() if key[-1] == close[0]]
    return KeyAdvice(f"did you mean '{dotted(keys[0])}'?", tuple(keys))


def _renamed(name: str, path: KeyPath) -> str:
    key = RENAMES[name]
    # What is said of the actor's optimizer holds for the critic's.
    return key.replace("actor.", "critic.", 1) if path[0] == "critic" else key


def _elsewhere(keys: Sequence[tuple[str, ...]]) -> KeyAdvice:
    places = [f"`{dotted(key[:-1])}:`" if len(key) > 1 else "the top level" for key in keys]
    under = "belongs at" if places == ["the top level"] else "belongs under"
    return KeyAdvice(f"{under} {any_of(places)}", tuple(keys))
