"""Problems -> text for people, JSON for programs, annotations for GitHub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verlcli.config.problems import Problem
from verlcli.errors import ConfigError

SCHEMA_VERSION = 1


def text_report(problems: Sequence[Problem]) -> str:
    """One line a problem, `preset.yaml:14:3 error VRL001 algorithm.clip_rato: unknown key; ...`, then a count."""
    return "\n".join([*map(str, problems), count(problems)])


def json_report(problems: Sequence[Problem]) -> dict[str, Any]:
    """Document of `schemas/validate.schema.json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": not has_errors(problems),
        "problems": [problem.to_json() for problem in problems],
    }


def github_report(problems: Sequence[Problem]) -> str:
    """GitHub workflow commands, one line a problem; empty without problems."""
    return "\n".join(_annotation(problem) for problem in problems)


def has_errors(problems: Sequence[Problem]) -> bool:
    """Whether one of `problems` is more than a warning."""
    return any(problem.severity == "error" for problem in problems)


def count(problems: Sequence[Problem]) -> str:
    """`no problems`, or `2 errors, 1 warning`."""
    errors = sum(problem.severity == "error" for problem in problems)
    parts = [_plural(errors, "error"), _plural(len(problems) - errors, "warning")]
    return ", ".join(part for part in parts if part) or "no problems"


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
    return f"::{problem.severity} {place}title={problem.code}::{_data(f'{origin}{key}{problem.sentence}')}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
