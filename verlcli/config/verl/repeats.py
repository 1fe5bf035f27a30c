"""The same key twice on one command line: Hydra takes the last one without a word."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Problem, Related
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun
from verlcli.config.wording import shown


def repeated_keys(run: VerlRun) -> Iterator[tuple[str, Problem]]:
    """A warning for each setting that a later one on the same command line replaces by another value.

    Arrays of overrides, one after another, are how scripts vary a recipe: that is meant.
    """
    if run.source != "script":
        return
    last: dict[str, Setting] = {}
    for setting in reversed(run.settings):
        holds = last.setdefault(setting.key, setting)
        beside = setting.place.file == holds.place.file  # a config is there to be overridden
        if (
            beside
            and setting is not holds
            and _differ(setting, holds)
            and not (setting.via or holds.via)
            and holds.place.line
        ):
            yield setting.key, _problem(setting, holds)


def _differ(setting: Setting, holds: Setting) -> bool:
    known = setting.value is not UNKNOWN and holds.value is not UNKNOWN
    return known and "~" not in (setting.prefix, holds.prefix) and setting.value != holds.value


def _problem(setting: Setting, holds: Setting) -> Problem:
    later = f"line {holds.place.line} sets it to {shown(holds.value)}"
    message = f"{shown(setting.value)} is not used: {later}, and the last one holds"
    related = (Related(holds.key, shown(holds.value), holds.value_place),)
    advice = "remove one of the two"
    return Problem("VRL325", "warning", setting.key, message, suggestion=advice, related=related).at(setting.place)
