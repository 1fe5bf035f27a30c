"""A verdict about a launch -> Problem: at the place of a key that somebody set, the others named beside it."""

from __future__ import annotations

from dataclasses import replace

from verlcli.config.problems import Fix, Place, Problem, Related
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import UNKNOWN, Setting, Variable, VerlRun
from verlcli.config.wording import shown


def problem_of(run: VerlRun, verdict: Verdict) -> Problem:
    """A verdict at the place of the first of its keys that somebody set; the others are named beside it.

    A key may also be an environment variable, `$NAME`, or a line for Slurm, `#SBATCH --nodes`.
    """
    known = [key for key in verdict.keys if run.is_set(key) or _around(run, key)]
    # What a default of ours says has no line; a key that somebody wrote is the one to point at.
    written = [key for key in known if _place(run, key).file] or known
    main = written[0] if written else verdict.keys[0]
    # Nobody set any of them: the launch itself is where to write one.
    place = _place(run, main) if written else run.place
    related = tuple(_related(run, key) for key in written if key != main)
    return _problem(run, verdict, main, place, related, placed_fix(run, verdict.fix, run.setting(main)))


def problem_at(run: VerlRun, verdict: Verdict, setting: Setting, at_key: bool) -> Problem:
    """A verdict about one setting, at its key or at its value."""
    place = setting.place if at_key else setting.value_place
    fix = verdict.fix
    if fix is not None and fix.key == setting.key:
        fix = _fix_of(setting, fix)
    return _problem(run, verdict, setting.written or setting.key, place, (), fix)


def _problem(
    run: VerlRun, verdict: Verdict, key: str, place: Place, related: tuple[Related, ...], fix: Fix | None
) -> Problem:
    name = run.name(key)
    found = Problem(verdict.code, verdict.severity, name, verdict.message, suggestion=verdict.suggestion)
    return replace(found, related=related, fix=fix).at(place)


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
    """The fix with the place of the text that it changes; one for a key that stands nowhere goes beside another."""
    if fix is None:
        return None
    setting = run.setting(fix.key)
    if setting is None:
        return replace(fix, place=beside.place) if beside and fix.action == "set" else None
    return _fix_of(setting, fix)


def _fix_of(setting: Setting, fix: Fix) -> Fix | None:
    if setting.inside:
        return None
    written = setting.written or fix.key
    if fix.action == "set":
        return replace(fix, key=written, place=setting.value_place, old=setting.raw)
    if fix.action == "rename" and written.endswith(fix.key):
        # Below `verl:` in a config of ours.
        fix = replace(fix, to=written[: -len(fix.key)] + str(fix.to))
    return replace(fix, key=written, place=setting.place, old=f"{setting.prefix}{setting.key}")
