"""Patterns of keys in the tables, whose only mark is `*`."""

from __future__ import annotations

from functools import cache


def fits(key: str, pattern: str) -> bool:
    """Whether a whole key fits; a `*` stands for any text, dots too. Needs no regex, which takes long to compile."""
    first, middles, last = _texts(pattern)
    if last is None:
        return key == pattern
    if not (key.startswith(first) and key.endswith(last)):
        return False
    at = len(first)
    for text in middles:
        found = key.find(text, at)
        if found < 0:
            return False
        at = found + len(text)
    return at <= len(key) - len(last)


@cache
def _texts(pattern: str) -> tuple[str, tuple[str, ...], str | None]:
    """Texts before, between and behind the stars; None behind when there is no star."""
    first, *others = pattern.split("*")
    return first, tuple(others[:-1]), others[-1] if others else None
