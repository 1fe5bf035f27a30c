"""A verdict about a launch -> Problem: at the place of a key that somebody set, the others named beside it."""

from __future__ import annotations

import re
from dataclasses import replace

from verlcli.config.problems import Fix, Place, Problem, Related
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import UNKNOWN, Setting, Variable, VerlRun
from verlcli.config.wording import shown

# `key=value` in a sentence, with Hydra's plus signs; no option (`--num-cpus=2`), no variable, no `numpy==2`.
_ASSIGNMENT = re.compile(r"(?<![\w.$#/-])(\+{0,2})([a-z_][\w.]*)=(?!=)(True\b|False\b)?(?=\S|(?<=e))")


def problem_of(run: VerlRun, verdict: Verdict) -> Problem:
    """A verdict at the place of the first of its keys that somebody set; the others are named beside it.

    A key may also be an environment variable, `$NAME`, or a line for Slurm, `#SBATCH --nodes`.
    """
    known = [key for key in verdict.keys if run.is_set(key) or _around(run, key)]
    # What a default of ours says has no line; a key that somebody wrote is the one to point at.
    written = [key for key in known if _place(run, key).file] or known
    main = written[0] if written else verdict.keys[0]
    # Nobody set any of them: the launch itself is where to write one.
    place = verdict.place or (_place(run, main) if written else run.place)
    related = tuple(_related(run, key) for key in written if key != main)
    return _problem(run, verdict, run.name(main), place, related, placed_fix(run, verdict.fix, run.setting(main)))


def problem_at(run: VerlRun, verdict: Verdict, setting: Setting, at_key: bool) -> Problem:
    """A verdict about one setting, at its key or at its value."""
    place = setting.place if at_key else setting.value_place
    fix = verdict.fix
    if fix is not None:
        fix = _fix_of(setting, fix) if fix.key == setting.key else placed_fix(run, fix, setting)
    return _problem(run, verdict, setting.written or setting.key, place, (), fix)


def _problem(
    run: VerlRun, verdict: Verdict, name: str, place: Place, related: tuple[Related, ...], fix: Fix | None
) -> Problem:
    found = Problem(verdict.code, verdict.severity, name, verdict.message, suggestion=_advice(run, verdict.suggestion))
    return replace(found, related=related, fix=fix).at(place)


def _advice(run: VerlRun, text: str | None) -> str | None:
    """Advice in the words of the input: a config of ours takes `key: value`, and no `++key=value`."""
    if text is None or run.source != "config":
        return text
    ours = {*run.names.values(), *(setting.written for setting in run.settings)}

    def in_yaml(match: re.Match[str]) -> str:
        plus, key, flag = match.groups()
        known = key in ours or key.startswith("verl.") or not (plus or run.has(key))
        return f"{key if known else run.name(key)}: {(flag or '').lower()}"

    return _ASSIGNMENT.sub(in_yaml, text)


def _around(run: VerlRun, key: str) -> Variable | None:
    """The variable or directive of the script that a key of a verdict means."""
    if key.startswith("$"):
        return run.environment.get(key[1:])
    return run.directives.get(key.removeprefix("#SBATCH --")) if key.startswith("#SBATCH --") else None


def _place(run: VerlRun, key: str) -> Place:
    around = _around(run, key)
    return around.place if around else run.value_place(key)


def _related(run: VerlRun, key: str) -> Related:
    setting, around = run.setting(key), _around(run, key)
    if around is not None:
        return Related(key, around.value or "?", around.place)
    value = "?" if setting is None or setting.value is UNKNOWN else shown(setting.value)
    return Related(run.name(key), value, run.value_place(key))


def placed_fix(run: VerlRun, fix: Fix | None, beside: Setting | None) -> Fix | None:
    """The fix with the place of the text that it changes; one for a key that stands nowhere goes beside another.

    None where nothing can be changed: the text stands in no file, or in a mapping that is one value.
    """
    if fix is None:
        return None
    setting = run.setting(fix.key)
    if setting is not None:
        return _fix_of(setting, fix)
    place = _place_to_add(run, beside)
    return replace(fix, key=run.name(fix.key), place=place) if fix.action == "set" and place.file else None


def _place_to_add(run: VerlRun, beside: Setting | None) -> Place:
    """Of the key to put a new one beside: the one it goes with, else the last; YAML needs the file alone."""
    if beside is not None and beside.place.file:
        return beside.place
    if run.source != "script":
        return run.place
    return next((each.place for each in reversed(run.settings) if each.place.file == run.place.file), Place())


def _fix_of(setting: Setting, fix: Fix) -> Fix | None:
    if setting.inside or not setting.place.file:
        return None
    written = setting.written or fix.key
    if fix.action == "set":
        return replace(fix, key=written, place=setting.value_place, old=setting.raw)
    if not written.endswith(fix.key):
        return None  # a key of ours, which has no other name
    if fix.action == "rename":
        # Below `verl:` in a config of ours.
        fix = replace(fix, to=written[: -len(fix.key)] + str(fix.to))
    return replace(fix, key=written, place=setting.place, old=f"{setting.prefix}{setting.key}")
