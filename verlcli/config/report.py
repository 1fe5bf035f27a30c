"""Problems -> text for people, JSON for programs, annotations for GitHub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verlcli.config.problems import SEVERITIES, Problem
from verlcli.errors import ConfigError

SCHEMA_VERSION = 1
_MANY = 2  # the same sentence this many times more is said once
_MOST = 12  # places that are listed
_CODES = re.compile(r" \((VRL\d{3}(?:, VRL\d{3})*)\)$")  # behind what was not checked


def text_report(problems: Sequence[Problem]) -> str:
    """One line a problem, `preset.yaml:14:3 error VRL001 algorithm.clip_rato: unknown key; ...`, then a count.

    The other keys that a problem concerns follow it, indented, as do further places of the very same problem. What was
    not checked stands at the end, a line for each missing fact.
    """
    alike: dict[tuple[str | None, str, str, str], list[Problem]] = {}
    for problem in problems:
        if not problem.unchecked:
            alike.setdefault((problem.file, problem.severity, problem.code, problem.sentence), []).append(problem)
    # A sentence that is said often stands at its first place; the others stay in order.
    often = {key for key, same in alike.items() if len(same) > _MANY}
    lines: list[str] = []
    for problem in problems:
        key = (problem.file, problem.severity, problem.code, problem.sentence)
        if problem.unchecked or (key in often and problem is not alike[key][0]):
            continue
        lines += _lines(*alike[key]) if key in often else _lines(problem)
    return "\n".join([*lines, *_unchecked(problems), count(problems)])


def _lines(problem: Problem, *same: Problem) -> list[str]:
    if not same:
        return [str(problem), *_others(problem)]
    listed = ", ".join(f"{each.line or each.origin or ''} {each.path}".strip() for each in same[:_MOST])
    more = f" and {len(same) - _MOST} more" if len(same) > _MOST else ""
    return [str(problem), *_others(problem), f"    the same {len(same)} times more: {listed}{more}"]


def _others(problem: Problem) -> list[str]:
    return [f"    {other.place} {other.path}={other.value}" for other in problem.related]


def _unchecked(problems: Sequence[Problem]) -> list[str]:
    """`run.sh: VRL203, VRL204 not checked: needs ...`, one line for each file and missing fact."""
    codes: dict[tuple[str, str], dict[str, None]] = {}
    for problem in problems:
        if problem.unchecked:
            found = _CODES.search(problem.message)
            message, listed = (problem.message[: found.start()], found[1]) if found else (problem.message, problem.code)
            codes.setdefault((problem.file or "", message), {}).update(dict.fromkeys(listed.split(", ")))
    return [f"{f'{file}: ' if file else ''}{', '.join(rules)} {message}" for (file, message), rules in codes.items()]


def json_report(problems: Sequence[Problem]) -> dict[str, Any]:
    """Document of `schemas/validate.schema.json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": not has_errors(problems),
        "problems": [problem.to_json() for problem in problems],
    }


def github_report(problems: Sequence[Problem]) -> str:
    """GitHub workflow commands, one line a problem; empty without problems. What was not checked is no annotation."""
    return "\n".join(_annotation(problem) for problem in problems if not problem.unchecked)


def has_errors(problems: Sequence[Problem]) -> bool:
    """Whether one of `problems` is more than a warning."""
    return any(problem.severity == "error" for problem in problems)


def count(problems: Sequence[Problem]) -> str:
    """`no problems`, or `2 errors, 1 warning`; notes are no problems, but those about the text are counted too."""
    said = [problem.severity for problem in problems if not problem.unchecked]
    numbers = {noun: said.count(noun) for noun in SEVERITIES}
    parts = [_plural(number, noun) for noun, number in numbers.items()]
    text = ", ".join(part for part in parts if part)
    return text if numbers["error"] or numbers["warning"] else f"no problems{f', {text}' if text else ''}"


def unreadable(error: ConfigError, source: str) -> Problem:
    """An input that could not be read at all, as a problem like the others."""
    where = error.where or source
    place = re.fullmatch(r"(.+?):(\d+)(?::(\d+))?", where)
    problem = Problem("VRL000", "error", "", error.message, suggestion=error.fix, origin=where)
    if place:
        return replace(problem, file=place[1], line=int(place[2]), column=int(place[3] or 1))
    return problem


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number > 1 else ''}" if number else ""


def _annotation(problem: Problem) -> str:
    place = f"file={_property(problem.file)},line={problem.line},col={problem.column}," if problem.file else ""
    origin = "" if problem.file or not problem.origin else f"{problem.origin}: "
    key = f"{problem.path}: " if problem.path else ""
    kind = "notice" if problem.severity == "note" else problem.severity
    return f"::{kind} {place}title={problem.code}::{_data(f'{origin}{key}{problem.sentence}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
