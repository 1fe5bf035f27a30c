"""A `Problem` is one thing wrong (or doubtful) in a config, as data; reporters turn it into text or JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from verlcli.config.quick import dataclass

NOT_CHECKED = "not checked: needs "
_DOUBTS = ("VRL129", "VRL157", "VRL225", "VRL257")  # about single values: not here, hardly meant, too much
Severity = Literal["error", "warning", "note"]  # a note says what was not checked, or what is only worth knowing
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written.

    Attributes:
        file: as the user named it; None for overrides, the environment and defaults.
        line, column: 1-based; 0 without text.
        origin: for people when there is no file: `-o #2`, `verl 0.9.1 default`.
    """

    file: str | None = None
    line: int = 0
    column: int = 0
    origin: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else self.origin or ""


@dataclass(frozen=True, slots=True)
class Related:
    """Another key that a problem concerns, with its value and where it was written."""

    path: str
    value: str
    place: Place

    def to_json(self) -> dict[str, Any]:
        """Plain dict with the keys of `schemas/validate.schema.json`."""
        place = self.place
        return {
            "path": self.path,
            "value": self.value,
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "origin": str(place) or None,
        }


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that mends a problem without anybody's decision, in terms of keys.

    Attributes:
        action: `rename` the key to `to`; `set` it to the value `to`; `remove` it; give it the Hydra prefix `to`.
        key: as written; for `set` it may be a key that stands nowhere yet.
        to: the new key, value or prefix.
        place: of the first character of `old`; for a key to be added, of the key to put it beside.
        old: what stands there now: the key with its prefix, or the value; empty for a key to be added.
    """

    action: Literal["rename", "set", "remove", "prefix"]
    key: str
    to: Any = None
    place: Place = Place()
    old: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem at one place.

    Attributes:
        code: stable code, `VRL001`.
        path: dotted key, `algorithm.clip_ratio`; empty for the whole document.
        message: what is wrong, without the place.
        file: file as the user named it, or None when the value came from an override or the environment.
        line, column: 1-based; 0 when there is no text position.
        suggestion: what to write instead, or None.
        origin: where the value came from, for people: `preset.yaml:14:3`, `-o #2`, `env VERL_CFG__A__B`.
        related: the other keys it concerns.
        fix: what `--fix` does about it; None when somebody must choose.
    """

    code: str
    severity: Severity
    path: str
    message: str
    file: str | None = None
    line: int = 0
    column: int = 0
    suggestion: str | None = None
    origin: str | None = None
    related: tuple[Related, ...] = ()
    fix: Fix | None = None

    def __str__(self) -> str:
        """One line, as compilers write it: `a.yaml:14:3 error VRL001 algorithm.clip_rato: unknown key; ...`."""
        place = f"{self.file}:{self.line}:{self.column}" if self.file else self.origin
        key = f"{self.path}: " if self.path else ""
        return f"{f'{place} ' if place else ''}{self.severity} {self.code} {key}{self.sentence}"

    def at(self, place: Place) -> Problem:
        """The same problem at `place`."""
        origin = str(place) or None
        return replace(self, file=place.file, line=place.line, column=place.column, origin=origin)

    @property
    def unchecked(self) -> bool:
        """Whether it says that a fact is missing rather than that something is wrong."""
        return self.severity == "note" and self.message.startswith(NOT_CHECKED)

    @property
    def sentence(self) -> str:
        """What is wrong and what to write instead."""
        return f"{self.message}; {self.suggestion}" if self.suggestion else self.message

    def to_json(self) -> dict[str, Any]:
        """Plain dict with the keys of `schemas/validate.schema.json`."""
        return {
            "code": self.code,
            "severity": self.severity,
            "path": self.path,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "suggestion": self.suggestion,
            "origin": self.origin,
            "related": [other.to_json() for other in self.related],
            "fixable": self.fix is not None,
        }


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Each problem once, by file and line; those without a file after the others, notes of the whole input last.

    A value that is an error is not doubted besides: a file that could not be read is not also one that is not here.
    """
    # A shared section gives the same wrong value to several roles.
    each = list(dict.fromkeys(problems))
    wrong = {_value(problem) for problem in each if problem.severity == "error"}
    doubts = (problem.code in _DOUBTS and problem.severity != "error" and _value(problem) in wrong for problem in each)
    return sorted((problem for problem, doubted in zip(each, doubts, strict=True) if not doubted), key=_order)


def _value(problem: Problem) -> tuple[Any, ...]:
    return (problem.path, problem.file, problem.line, problem.column, problem.origin)


def _order(problem: Problem) -> tuple[Any, ...]:
    origin = problem.origin or ""
    # By length first, so that `-o #10` comes after `-o #9`.
    place = (problem.file is None, problem.file or "", problem.line, problem.column, len(origin), origin, problem.path)
    return (problem.unchecked, *place)
