"""Patterns of bash (`*`, `?`, `[…]`, `@(a|b)`) as regular expressions."""

from __future__ import annotations

import re
from itertools import groupby

_CLASSES = {"digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s"}
_COSTLIEST = 2_000_000  # steps that a search may take at worst
_SETS = re.compile(r"\\.|\[\^?\]?(?:\[:\w+:\]|[^\]])*\]", re.DOTALL)
_EXTENDED = {"?(": ")?", "*(": ")*", "+(": ")+", "@(": ")"}


class TooHardError(Exception):
    """A pattern that is not followed, or whose search could take long."""


def glob_regex(segments: list[tuple[str, bool]]) -> str:
    """Regular expression of a pattern, given as runs of text with whether each is quoted and so literal.

    Raises `TooHardError` for `!(…)` and for nested repetition.
    """
    out = []
    for quoted, runs in groupby(segments, key=lambda segment: segment[1]):
        text = "".join(run for run, _ in runs)
        out.append(re.escape(text) if quoted else _translate(text))
    return "".join(out)


def _translate(text: str) -> str:
    out: list[str] = []
    closers: list[str] = []
    at = 0
    while at < len(text):
        if text[at : at + 2] in _EXTENDED:
            if closers and text[at] in "*+":
                raise TooHardError("nested repetition")
            closers.append(_EXTENDED[text[at : at + 2]])
            out.append("(?:")
            at += 2
            continue
        if text.startswith("!(", at):
            raise TooHardError("a pattern with !(…)")
        at = _plain(text, at, out, closers)
    return "".join(out) + "".join(closers)


def _plain(text: str, at: int, out: list[str], closers: list[str]) -> int:
    char = text[at]
    if char == "*":
        if not out or out[-1] != ".*":
            out.append(".*")
    elif char == "?":
        out.append(".")
    elif char == "[" and (found := _bracket(text, at)):
        out.append(found[0])
        return found[1]
    elif closers and char == "|":
        out.append("|")
    elif closers and char == ")":
        out.append(closers.pop())
    else:
        out.append(re.escape(char))
    return at + 1


def _bracket(text: str, at: int) -> tuple[str, int] | None:
    match = re.compile(r"\[([!^]?)(\]?(?:\[:\w+:\]|[^\]])*)\]").match(text, at)
    if not match:
        return None
    return f"[{'^' if match[1] else ''}{_members(match[2])}]", match.end()


def _set(text: str) -> str:
    """A `[…]` of a regular expression, where a backslash stands for itself."""
    negated = text.startswith("[^")
    return f"[{'^' if negated else ''}{_members(text[1 + negated : -1])}]"


def _members(text: str) -> str:
    inner = re.sub(r"\[:(\w+):\]", lambda found: _CLASSES.get(found[1], ""), text.replace("\\", "\\\\"))
    return re.sub(r"[][^&~|]|--", lambda found: "".join("\\" + char for char in found[0]), inner)


def matcher(regex: str, text: str, tries: int = 1) -> re.Pattern[str]:
    """Compiled pattern, for as many searches in `text` as `tries`.

    Raises `TooHardError` when they could take long, or it is no pattern at all.
    """
    repeats = regex.count(".*") + sum(regex.count(mark) for mark in (")*", ")+"))
    if tries * max(len(text), 2) ** max(1, repeats) > _COSTLIEST:
        raise TooHardError("a pattern too costly to follow")
    try:
        return re.compile(regex, re.DOTALL)
    except re.error as error:
        raise TooHardError("a pattern that is not understood") from error


def matches(segments: list[tuple[str, bool]], text: str) -> bool:
    """Whether all of `text` fits the pattern. Raises `TooHardError`."""
    return matcher(glob_regex(segments), text).fullmatch(text) is not None


def cut(segments: list[tuple[str, bool]], text: str, at_end: bool, longest: bool) -> tuple[int, int]:
    """What `${X#p}` (or at the end `${X%p}`) leaves of `text`, as offsets. Raises `TooHardError`."""
    pattern = matcher(glob_regex(segments), text, len(text))
    if at_end:
        starts = range(len(text) + 1) if longest else range(len(text), -1, -1)
        return next(((0, start) for start in starts if pattern.fullmatch(text, start)), (0, len(text)))
    ends = range(len(text), -1, -1) if longest else range(len(text) + 1)
    return next(((end, len(text)) for end in ends if pattern.fullmatch(text, 0, end)), (0, len(text)))


def extended_regex(segments: list[tuple[str, bool]], text: str) -> bool:
    """Whether `text` fits the right side of `=~` somewhere. Raises `TooHardError` for repetition of groups."""
    regex = "".join(re.escape(part) if quoted else part for part, quoted in segments)
    if re.search(r"\)[*+{]", regex) or re.search(r"\\[bBdDwWsSAZ1-9]", regex):
        raise TooHardError("a regular expression that is not followed")
    regex = _SETS.sub(lambda found: found[0] if found[0][0] == "\\" else _set(found[0]), regex)
    cost = len(re.findall(r"[*+{]", regex))
    if max(len(text), 2) ** (cost + 1) > _COSTLIEST:
        raise TooHardError("a regular expression too costly to follow")
    return matcher(regex, "").search(text) is not None
