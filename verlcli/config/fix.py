"""Mechanical fixes of a file, as text edits at the places of the problems: all else stays byte for byte as it was.

Every edit is checked: its place must hold the text that the problem spoke of, and YAML must read as meant afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from verlcli.config.fix_yaml import fix_yaml
from verlcli.config.presets import is_preset_name
from verlcli.config.problems import Fix, Problem
from verlcli.config.verl.kind import kind_of
from verlcli.config.wording import shown
from verlcli.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of a file.

    Attributes:
        path: the file.
        before, text: its text before and after.
        made: problems that are mended by it.
        left: problems whose fix could not be written mechanically.
    """

    path: str
    before: str
    text: str
    made: tuple[Problem, ...]
    left: tuple[Problem, ...]

    def write(self) -> None:
        """Replace the file's content, in place, so that its permissions stay.

        Raises:
            ConfigError: it cannot be written.
        """
        try:
            with open(self.path, "w", encoding="utf-8", newline="") as stream:
                stream.write(self.text)
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}", where=self.path, fix="check its permissions"
            ) from None


def fix_file(file: str, problems: Iterable[Problem]) -> Fixed | None:
    """Mend a file that the user named; None when there is nothing to do, or it is no file of the user's."""
    if is_preset_name(file) or not os.path.isfile(file):
        return None
    ours = _fixable(problems, file)
    if not ours:
        return None
    with open(file, encoding="utf-8", newline="") as stream:
        text = stream.read()
    return fix_text(text, file, ours, script=kind_of(file, text) == "script")


def fix_text(text: str, file: str, problems: Iterable[Problem], *, script: bool) -> Fixed:
    """Mend what can be mended of `problems` in the text of `file`.

    Args:
        file: name as in the problems' places; problems of other files are no business of this one.
        script: a shell script rather than YAML.
    """
    before = text
    made: list[Problem] = []
    left: list[Problem] = []
    # From the end on, so that the places before stay right.
    for problem in sorted(_fixable(problems, file), key=_place, reverse=True):
        changed = _fix_script(text, problem.fix) if script else fix_yaml(text, file, problem.fix)
        (left if changed is None else made).append(problem)
        text = text if changed is None else changed
    return Fixed(file, before, text, tuple(reversed(made)), tuple(reversed(left)))


def _fixable(problems: Iterable[Problem], file: str) -> list[Any]:
    unique = {repr(problem.fix): problem for problem in problems if problem.fix and problem.fix.place.file == file}
    return list(unique.values())


def _place(problem: Any) -> tuple[int, int]:
    return problem.fix.place.line, problem.fix.place.column


def diff_of(before: str, after: str, file: str) -> str:
    """Unified diff; empty when nothing changed."""
    lines = unified_diff(before.splitlines(True), after.splitlines(True), f"{file}", f"{file} (fixed)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _fix_script(text: str, fix: Fix) -> str | None:
    """The script with one word changed, or None when the place does not show the word as it was understood."""
    lines = text.split("\n")
    row, column = fix.place.line - 1, fix.place.column - 1
    if not 0 <= row < len(lines):
        return None
    line = lines[row]
    before, rest = line[:column], line[column:]
    if fix.old and not rest.startswith(fix.old):
        return None
    after = rest[len(fix.old) :]
    if fix.action == "remove":
        word, _, tail = after.partition(" ")
        if any(mark in word for mark in "\"'$()\\"):
            return None  # the word's end cannot be told from the text alone
        lines[row] = before + tail
    elif fix.action == "set":
        value = _word(fix.to)
        lines[row] = f"{before}{value}{after}" if fix.old else f"{before}{fix.key}={value} {rest}"
    else:
        prefix = fix.old[: len(fix.old) - len(fix.old.lstrip("+~"))]
        name = fix.old[len(prefix) :]
        lines[row] = before + (f"{prefix}{fix.to}" if fix.action == "rename" else f"{fix.to}{name}") + after
    return "\n".join(lines)


def _word(value: Any) -> str:
    text = {True: "True", False: "False", None: "null"}.get(value) if value is None or isinstance(value, bool) else None
    text = text or str(value)
    return f"'{text}'" if any(mark in text for mark in ' []{}*?$"&|;<>()') else text


def describe(fix: Fix) -> str:
    """What a fix does, in a few words."""
    if fix.action == "set":
        return f"{fix.key}={shown(fix.to)}"
    if fix.action == "remove":
        return f"{fix.key} removed"
    return f"{fix.key} -> {fix.to}" if fix.action == "rename" else f"{fix.key} -> {fix.to}{fix.key}"
