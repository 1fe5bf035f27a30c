"""Operators that change a known text: cutting, replacing, changing case, taking a part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verlcli.config.shell.items import Param
from verlcli.config.shell.parts import cut_parts, first_gap, known_text, rewritten, text_as_run, through
from verlcli.config.shell.patterns import TooHardError, cut, glob_regex, matcher
from verlcli.config.shell.types import Gap
from verlcli.config.shell.world import Parts

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander


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
