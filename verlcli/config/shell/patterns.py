"""Patterns of bash (`*`, `?`, `[…]`, `@(a|b)`) as regular expressions, and the operators of `${…}` that use them."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from verlcli.config.shell.items import Param
from verlcli.config.shell.parts import Parts, cut_parts, first_gap, known_text, rewritten, text_as_run, through
from verlcli.config.shell.types import Gap

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander

_CLASSES = {"digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s"}
_COSTLIEST = 2_000_000  # steps that a search may take at worst
_SETS = re.compile(r"\\.|\[(?:\^|(?!\^))(?:\]|(?!\]))(?:\[:\w+:\]|[^\]])*\]|\[", re.DOTALL)
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
    elif char == "\\" and at + 1 < len(text):
        out.append(re.escape(text[at + 1]))
        return at + 2
    elif closers and char == "|":
        out.append("|")
    elif closers and char == ")":
        out.append(closers.pop())
    else:
        out.append(re.escape(char))
    return at + 1


def _bracket(text: str, at: int) -> tuple[str, int] | None:
    match = re.compile(r"\[([!^]|(?![!^]))((?:\]|(?!\]))(?:\[:\w+:\]|[^\]])*)\]").match(text, at)
    if not match:
        return None
    return f"[{'^' if match[1] else ''}{_members(match[2])}]", match.end()


def _set(text: str) -> str:
    """A `[…]` of a regular expression, where a backslash stands for itself; one outside of it stays with its follower.

    Raises `TooHardError` for a `[` without its end.
    """
    if text.startswith("\\"):
        return re.escape(text[1])
    if text == "[":
        raise TooHardError("a regular expression that is not understood")
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
    regex = _SETS.sub(lambda found: _set(found[0]), regex)
    cost = len(re.findall(r"[*+{]", regex))
    if max(len(text), 2) ** (cost + 1) > _COSTLIEST:
        raise TooHardError("a regular expression too costly to follow")
    return matcher(regex, "").search(text) is not None


def transformed(expander: Expander, param: Param, value: Parts) -> Parts:
    """`${X#p}`, `${X%p}`, `${X/a/b}`, `${X^^}` and their like; a gap for what is not known or not followed."""
    text = known_text(value)
    if text is None:
        return _without(value)
    try:
        if param.op[0] in "#%":
            start, end = cut(expander.pattern(param.arg), text, param.op[0] == "%", len(param.op) == 2)
            return cut_parts(value, start, end)
        if param.op[0] == "/":
            return _replaced(expander, param, value, text)
        return _cased(expander, param, value, text)
    except TooHardError as reason:
        return (Gap(f"{reason} in ${{{param.name}…}}", expander.source.place(param.at), param.name, "unsupported"),)


def _without(value: Parts) -> Parts:
    """A gap in place of what would be cut from a value with a gap; of a variable without a value nothing is left."""
    gap = first_gap(value)
    unset = all(isinstance(part, Gap) and part.kind == "unset" for part in value)
    return value if unset or gap is None else (gap,)


def _replaced(expander: Expander, param: Param, value: Parts, text: str) -> Parts:
    regex = glob_regex(expander.pattern(param.arg))
    anchor = param.op[1:].strip("/")
    if not regex and not anchor:
        return value
    regex = {"#": rf"\A(?:{regex})", "%": rf"(?:{regex})\Z"}.get(anchor, regex)
    replacement = expander.text(param.second)
    new = known_text(replacement)
    if new is None:
        return _without(replacement)
    if text and len(text) * max(1, len(new)) > 4_000_000:
        raise TooHardError("a replacement too long to follow")
    result = matcher(regex, text).sub(
        lambda found: new if found[0] or not text or anchor else "", text, count=0 if param.op == "//" else 1
    )
    if result == text:
        return value
    return rewritten(value, result) if text else through(replacement, param.name)


def _cased(expander: Expander, param: Param, value: Parts, text: str) -> Parts:
    if param.arg and param.op != "@":
        raise TooHardError("a change of case with a pattern")
    mode = (
        {"U": "^^", "L": ",,", "u": "^"}.get(text_as_run(expander.text(param.arg)), "") if param.op == "@" else param.op
    )
    if not mode:
        raise TooHardError("a transformation")
    new = text.upper() if "^" in mode else text.lower()
    return rewritten(value, new if len(mode) == 2 else new[:1] + text[1:])


def sliced(expander: Expander, param: Param, value: Parts) -> Parts:
    """`${X:start}` and `${X:start:length}`; negative numbers count from the end."""
    text = known_text(value)
    if text is None:
        return _without(value)
    numbers = [expander.arithmetic(part, param.at) for part in (param.arg, param.second) if part]
    unknown = next((gap for number in numbers if (gap := first_gap(number))), None)
    if unknown:
        return (unknown,)
    start, *length = [int(text_as_run(number) or 0) for number in numbers] or [0]
    start = max(0, start + len(text)) if start < 0 else start
    end = len(text) if not length else (start + length[0] if length[0] >= 0 else len(text) + length[0])
    return cut_parts(value, start, max(start, end))
