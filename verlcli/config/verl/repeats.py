"""The same key twice on one command line: Hydra takes the last one without a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from verlcli.config.problems import Problem, Related
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun
from verlcli.config.wording import shown

_NOT_WRITTEN = 0  # as a word of the command: it came through an array, or from this program's own command line


def repeated_keys(run: VerlRun) -> Iterator[tuple[str, Problem]]:
    """A warning for each setting that a later one on the same command line replaces by another value.

    Arrays of overrides, one after another, and arguments of a function that starts the launch are how scripts vary a
    recipe: that is meant.
    """
    if run.source != "script":
        return
    last: dict[str, tuple[Setting, int]] = {}
    for setting, command in reversed(list(zip(run.settings, _commands(run.settings), strict=True))):
        holds, other = last.setdefault(setting.key, (setting, command))
        if command == other != _NOT_WRITTEN and setting is not holds and _differ(setting, holds):
            yield setting.key, _problem(setting, holds)


def _commands(settings: Sequence[Setting]) -> Iterator[int]:
    """For each setting a number of the command in which it is written as a word: those of one follow line by line.

    Each array between two words may take a line of its own. A config, there to be overridden, stands elsewhere.
    """
    file, line, number, arrays = None, 0, 0, set[str]()
    for setting in settings:
        if setting.via or not setting.place.line:
            arrays.add(setting.via or "")
            yield _NOT_WRITTEN
            continue
        place = setting.place
        if place.file != file or not 0 <= place.line - line <= 1 + len(arrays):
            number += 1
        file, line, arrays = place.file, place.line, set()
        yield number


def _differ(setting: Setting, holds: Setting) -> bool:
    known = setting.value is not UNKNOWN and holds.value is not UNKNOWN
    return known and "~" not in (setting.prefix, holds.prefix) and setting.value != holds.value


def _problem(setting: Setting, holds: Setting) -> Problem:
    later = f"line {holds.place.line} sets it to {shown(holds.value)}"
    message = f"{shown(setting.value)} is not used: {later}, and the last one holds"
    related = (Related(holds.key, shown(holds.value), holds.value_place),)
    advice = "remove one of the two"
    return Problem("VRL325", "warning", setting.key, message, suggestion=advice, related=related).at(setting.place)
