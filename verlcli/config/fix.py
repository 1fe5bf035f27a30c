"""Mechanical fixes of a file, as text edits at the places of the problems: all else stays byte for byte as it was.

Nothing is taken on trust: an edit must read as meant, and the file as a whole is checked again. A fix that leaves its
problem, or brings an error, is not made.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import unified_diff
from pathlib import Path
from typing import Any

from verlcli.config.check_file import check_file, read_text
from verlcli.config.fix_script import fix_script
from verlcli.config.fix_yaml import fix_yaml
from verlcli.config.presets import is_preset_name
from verlcli.config.problems import Fix, Problem
from verlcli.config.verl.kind import kind_of
from verlcli.errors import ConfigError

Check = Callable[[str], Sequence[Problem]]
_MOST_ROUNDS = 4
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of a file.

    Attributes:
        path: the file.
        before, text: its text before and after, line ends included; a byte that is not UTF-8 is a lone surrogate.
        made: problems that are mended by it.
        left: problems whose fix could not be written, or would have brought an error.
    """

    path: str
    before: str
    text: str
    made: tuple[Problem, ...]
    left: tuple[Problem, ...]

    def write(self) -> None:
        """Replace the file's content in place, so that permissions, owner and links stay.

        Raises:
            ConfigError: it cannot be written, or changed since it was read.
        """
        old, new = _encoded(self.before), _encoded(self.text)
        try:
            with open(self.path, "r+b") as stream:
                if stream.read() != old:
                    raise ConfigError("changed since it was checked", where=self.path, fix="start the command again")
                stream.seek(0)
                stream.write(new)
                stream.truncate()
        except OSError as error:
            fix = "check its permissions, and the space on the disk"
            raise ConfigError(f"cannot be written: {error.strerror}", where=self.path, fix=fix) from None


def fix_file(file: str, problems: Sequence[Problem], check: Check = check_file) -> Fixed | None:
    """Mend a file that the user named; None when there is nothing to do, or it is no file of the user's.

    Args:
        file: as the user named it.
        problems: all that `check` finds in it.
        check: from a path to the problems there; also asked about a copy beside the file with the fixes made.
    """
    if not _fixable(problems, file) or not os.path.isfile(file):
        return None
    before = Path(file).read_bytes().decode("utf-8", errors="surrogateescape")
    kind = kind_of(file, read_text(file))
    if kind == "ours" and is_preset_name(file):
        return None
    mending = _Mending(file, before, kind == "script", check)
    text, made, known = mending.run(mending.plain(before), problems)
    return Fixed(file, before, mending.as_before(text), made, tuple(_fixable(known, file)))


def fix_text(text: str, file: str, problems: Iterable[Problem], *, script: bool) -> Fixed:
    """Mend what can be mended of `problems` in the text of `file`, without a look at the whole.

    Args:
        file: name as in the problems' places; problems of other files are no business of this one.
        script: a shell script rather than YAML.
    """
    before = text
    made: list[Problem] = []
    left: list[Problem] = []
    # From the end on, so that the places before stay right.
    fixable = _fixable(problems, file)
    for problem in reversed(fixable):
        alike = [other.fix.key for other in fixable if _spot(other.fix) == _spot(problem.fix)]
        changed = _applied(text, file, problem.fix, alike if script else None)
        (left if changed is None else made).append(problem)
        text = text if changed is None else changed
    return Fixed(file, before, text, tuple(reversed(made)), tuple(reversed(left)))


def diff_of(before: str, after: str, file: str) -> str:
    """Unified diff; empty when nothing changed."""
    lines = unified_diff(before.splitlines(True), after.splitlines(True), f"{file}", f"{file} (fixed)")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _Mending:
    """The fixes of one file, in rounds: those that hold together are made together, of the others each that can be."""

    file: str
    before: str
    script: bool
    check: Check

    def run(self, text: str, known: Sequence[Problem]) -> tuple[str, tuple[Problem, ...], Sequence[Problem]]:
        """The text after all rounds, the problems that are mended, and those that are still there."""
        made: list[Problem] = []
        for _ in range(_MOST_ROUNDS):
            mended, of_round, known = self._round(text, _fixable(known, self.file), known)
            made += of_round
            if mended == text:
                break
            text = mended
        return text, tuple(made), known

    def _round(
        self, text: str, group: Sequence[Problem], known: Sequence[Problem]
    ) -> tuple[str, list[Problem], Sequence[Problem]]:
        tried = self._tried(text, group, known)
        if tried is not None or len(group) < 2:
            return tried or (text, [], known)
        half = len(group) // 2
        text, later, known = self._round(text, group[half:], known)
        text, earlier, known = self._round(text, group[:half], known)
        return text, [*earlier, *later], known

    def _tried(
        self, text: str, group: Sequence[Problem], known: Sequence[Problem]
    ) -> tuple[str, list[Problem], Sequence[Problem]] | None:
        """All fixes of a group at once; None when that is no progress, or there is nothing to do."""
        fixed = fix_text(text, self.file, group, script=self.script)
        made, had = fixed.made, {(each.code, each.path) for each in known}
        for _ in range(_MOST_ROUNDS):
            after = self._checked(fixed.text) if fixed.made else None
            if after is None:
                return None
            if _is_better(known, after, made):
                return fixed.text, list(made), after
            # What a key under its right name shows of its value or its prefix is often mechanical too.
            shown = [each for each in after if (each.code, each.path) not in had]
            fixed = fix_text(fixed.text, self.file, shown, script=self.script)
        return None

    def _checked(self, text: str) -> list[Problem] | None:
        """Problems of the text, from a copy beside the file, so that what it names is found; None: no reading it."""
        path = Path(self.file)
        for folder in (path.absolute().parent, None):  # a folder may be read-only although its file is not
            with suppress(OSError, ConfigError):
                number, copy = tempfile.mkstemp(path.suffix, f".{path.stem[:40]}-", folder)
                try:
                    with open(number, "wb") as stream:
                        stream.write(_encoded(self.as_before(text)))
                    return [_of_file(problem, copy, self.file) for problem in self.check(copy)]
                finally:
                    os.unlink(copy)
        return None

    def plain(self, text: str) -> str:
        """The text as the edits see it: without a byte order mark, and for YAML with plain line ends."""
        text = text.removeprefix(_BOM)
        return text.replace("\r\n", "\n") if self._has_crlf() else text

    def as_before(self, text: str) -> str:
        """A text from `plain` with the byte order mark and the line ends of the file."""
        text = text.replace("\n", "\r\n") if self._has_crlf() else text
        return _BOM + text if self.before.startswith(_BOM) else text

    def _has_crlf(self) -> bool:
        # In a script the carriage return is part of the command.
        return not self.script and 0 < self.before.count("\r\n") == self.before.count("\n")


def _of_file(problem: Problem, copy: str, file: str) -> Problem:
    """A problem of the copy as one of the file."""
    if problem.file == copy:
        problem = replace(problem, file=file, origin=f"{file}:{problem.line}:{problem.column}")
    if problem.fix is None or problem.fix.place.file != copy:
        return problem
    return replace(problem, fix=replace(problem.fix, place=replace(problem.fix.place, file=file)))


def _is_better(before: Sequence[Problem], after: Sequence[Problem], made: Sequence[Any]) -> bool:
    """Whether each problem of `made` is gone and no error came; places do not count, for lines may have moved."""
    names = {each.fix.key: each.fix.to for each in made if each.fix.action == "rename"}
    errors_before = Counter((each.code, _renamed(each.path, names)) for each in before if each.severity == "error")
    errors_after = Counter((each.code, each.path) for each in after if each.severity == "error")
    all_before, all_after, gone = (Counter((each.code, each.path) for each in found) for found in (before, after, made))
    return not errors_after - errors_before and all(all_after[key] <= all_before[key] - gone[key] for key in gone)


def _renamed(path: str, names: Mapping[str, str]) -> str:
    """A key under its new name: what was wrong with its value may still be."""
    old = next((name for name in names if path == name or path.startswith(f"{name}.")), None)
    return path if old is None else names[old] + path[len(old) :]


def _fixable(problems: Iterable[Problem], file: str) -> list[Any]:
    """Problems with a fix in `file`, one for each fix, by place."""
    unique = {repr(problem.fix): problem for problem in problems if problem.fix and problem.fix.place.file == file}
    return sorted(unique.values(), key=_place)


def _place(problem: Any) -> tuple[int, int]:
    return problem.fix.place.line, problem.fix.place.column


def _spot(fix: Fix) -> tuple[object, ...]:
    return fix.action, fix.place, fix.old, fix.to


def _applied(text: str, file: str, fix: Fix, alike: Collection[str] | None) -> str | None:
    # What a rename leaves behind as `${key}` would point nowhere.
    if fix.action in ("rename", "remove") and "." in fix.key and any(f"${{{fix.key}{end}" in text for end in "}."):
        return None
    return fix_yaml(text, file, fix) if alike is None else fix_script(text, file, fix, alike)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")
