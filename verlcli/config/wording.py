"""Sentences for what is wrong with a value or a key, as a colleague would say them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from verlcli.config.keys import KeyPath, dotted, known_keys, schema_at
from verlcli.config.renames import RENAMES

_TYPES = {
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
    return any_of(_TYPES[name] for name in types)


def any_of(choices: Iterable[object]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last


def closest(text: Any, choices: Sequence[str]) -> str | None:
    """The choice that `text` is likely a misspelling of."""
    folded = {choice.lower(): choice for choice in choices}
    close = get_close_matches(str(text).lower(), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def better_key(path: KeyPath) -> str | None:
    """Advice for an unknown key: a sibling it misspells, or the section where it belongs; None when nothing is near."""
    parent, name = path[:-1], str(path[-1])
    siblings = tuple((schema_at(parent) or {}).get("properties", {}))
    exact = [key for key in known_keys() if key[-1] == name]
    if exact:
        return _belongs([key for key in exact if parent and key[0] == parent[0]] or exact)
    if name in RENAMES:
        return f"here it is called '{_renamed(name, path)}'"
    sibling = closest(name, siblings)
    if sibling:
        return f"did you mean '{sibling}'?"
    names = sorted({key[-1] for key in known_keys()})
    close = get_close_matches(name.lower(), names, n=1, cutoff=0.8)
    if close:
        return f"did you mean '{dotted(next(key for key in known_keys() if key[-1] == close[0]))}'?"
    return None


def _renamed(name: str, path: KeyPath) -> str:
    key = RENAMES[name]
    # What is said of the actor's optimizer holds for the critic's.
    return key.replace("actor.", "critic.", 1) if path[0] == "critic" else key


def _belongs(keys: Sequence[tuple[str, ...]]) -> str:
    places = [f"`{dotted(key[:-1])}:`" if len(key) > 1 else "the top level" for key in keys]
    under = "belongs at" if places == ["the top level"] else "belongs under"
    return f"{under} {any_of(places)}"
