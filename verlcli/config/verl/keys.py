"""Every setting of a launch against the tree of keys: does the key exist, is its prefix right, what is its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from verlcli.config.context import NotKnown
from verlcli.config.problems import Fix, Place, Problem, Related, Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.engine_kwargs import engine_kwargs_verdicts
from verlcli.config.verl.hydra_groups import group_verdicts, is_group
from verlcli.config.verl.key_values import value_verdicts
from verlcli.config.verl.legacy import legacy_verdicts
from verlcli.config.verl.part import PartOfRun
from verlcli.config.verl.placing import problem_at, problem_of
from verlcli.config.verl.references import reference_verdicts
from verlcli.config.verl.removed_keys import removal_verdicts
from verlcli.config.verl.repeats import repeated_keys
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun
from verlcli.config.verl.settings import leaves
from verlcli.config.verl.unknown import unknown_verdict
from verlcli.config.verl.words import sweep_values
from verlcli.config.wording import shown

_TEACHERS = "distillation.teacher_models."  # names below it are free, and each has the keys of this one:
_MOST = 5  # other places named beside one
_TEACHER = "distillation.teacher_models.teacher_model"


@dataclass(frozen=True, slots=True)
class _Finding:
    verdict: Verdict
    at_key: bool = True


def check_keys(run: VerlRun) -> Iterator[tuple[str, Problem]]:
    """Problems of single settings, each with the key that it is about, and of keys that must be set."""
    if isinstance(run, PartOfRun):
        yield "", run.note
    others: list[tuple[str, Problem]] = []
    for key, problem in _check_each(run):
        if problem.code == "VRL262":
            others.append((key, problem))
        else:
            yield key, problem
    if others:
        yield others[0][0], _joined([problem for _, problem in others])


def _joined(problems: list[Problem]) -> Problem:
    """One problem for all keys of another engine: they have the same cause."""
    first, rest = problems[0], problems[1:]
    if not rest:
        return first
    related = tuple(Related(other.path, "", _place_of(other)) for other in rest[:_MOST])
    more = f" ({len(rest)} more {'keys' if len(rest) > 1 else 'key'} of that engine)"
    return replace(first, message=f"{first.message}{more}", related=related)


def _place_of(problem: Problem) -> Place:
    return Place(problem.file, problem.line, problem.column, None if problem.file else problem.origin)


def _check_each(run: VerlRun) -> Iterator[tuple[str, Problem]]:
    added: dict[str, Any] = {}  # keys that settings before this one brought
    for setting in run.settings:
        parts = tuple(leaves(setting)) if isinstance(setting.value, dict) else (setting,)
        for part in parts[:1] if len(parts) > 1 and is_group(run, setting) else parts:
            for finding in _said(run, part, added):
                yield part.key, problem_at(run, finding.verdict, part, finding.at_key)
        if setting.prefix == "~":
            added.pop(setting.key, None)
        else:
            added.update([(part.key, part.value) for part in parts])
    yield from repeated_keys(run)
    for verdict in _mandatory(run):
        yield verdict.keys[0], problem_of(run, verdict)


def _said(run: VerlRun, setting: Setting, added: dict[str, Any]) -> tuple[_Finding, ...]:
    """Findings about one setting; those about one that holds, and is the first of its key, hang on nothing but it."""
    if run.setting(setting.key) is not setting or setting.key in added:
        return tuple(_findings(run, setting, added))

    def make() -> tuple[_Finding, ...]:
        run.setting(setting.key)
        return tuple(_findings(run, setting, added))

    return run.once(setting.key, make)


def _findings(run: VerlRun, setting: Setting, added: dict[str, Any]) -> Iterator[_Finding]:
    key, tree = setting.key, run.tree
    if key.partition(".")[0] == "hydra" or key.startswith("hydra/"):
        return
    if is_group(run, setting):
        yield from (_Finding(verdict, at_key=False) for verdict in group_verdicts(run, setting))
    elif setting.prefix == "~":
        yield from map(_Finding, removal_verdicts(run, setting, added))
    elif tree.has(key):
        old = list(legacy_verdicts(run, setting))
        yield from map(_Finding, [*_plus(run, setting, added), *old])
        if not old or all(verdict.severity != "error" for verdict in old):  # else nothing reads the value
            yield from _value(run, setting)
    elif tree.is_free_form(key) or tree.is_extra(key):
        yield from map(_Finding, [*_plus(run, setting, added), *_no_plus(run, setting, added)])
        yield from map(_Finding, legacy_verdicts(run, setting) if setting.prefix else ())
        yield from map(_Finding, engine_kwargs_verdicts(run, setting))
        yield from _value(run, setting)
    elif key in added:
        yield from map(_Finding, _plus(run, setting, added))
    elif not _handed_on(run, key):
        yield from map(_Finding, unknown_verdict(run, setting))


def _plus(run: VerlRun, setting: Setting, added: dict[str, Any]) -> Iterator[Verdict]:
    """`+` on a key that has a value already."""
    key = setting.key
    is_container = isinstance(setting.value, (dict, list)) or setting.inside
    if run.source != "script" or setting.prefix != "+" or is_container:
        return
    if key in added:
        there, of = added[key], "this command line sets it already"
    else:
        there, of = _default(run, key), "verl's default"
    if there is None:
        return
    message = f"{key} has a value already ({shown(there)}: {of}), and Hydra refuses to add it again"
    prefix = "" if run.tree.has(key) else "++"
    advice = f"write {prefix}{key}={setting.raw}"
    yield Verdict("VRL250", (key,), message, advice, fix=Fix("prefix", key, prefix))


def _default(run: VerlRun, key: str) -> Any:
    """What stands at a key before any override; None also for what only a run can tell."""
    from verlcli.facts.verl import UNRESOLVED

    if run.tree.is_section(key):
        return {}
    if run.unseen or not run.tree.has(key) or run.tree.defaults[key] == "???":
        return None
    try:
        found = run.tree.resolve_default(key, run.get)
        return None if found is UNRESOLVED else found
    except NotKnown:
        return None


def _no_plus(run: VerlRun, setting: Setting, added: dict[str, Any]) -> Iterator[Verdict]:
    """A key that is legal, but has to be added."""
    key = setting.key
    if run.source != "script" or setting.prefix or key in added or run.unseen:
        return
    extra = not run.tree.is_free_form(key)
    why = "is a setting that verl's YAML does not list" if extra else "is added to a free mapping"
    message = f"{key} {why}, and Hydra stops without a + before it"
    written = f"+{key}={setting.raw}" if not setting.inside else f"+{key}={shown(setting.value)}"
    yield Verdict("VRL251", (key,), message, f"write {written}", fix=Fix("prefix", key, "+"))


def _value(run: VerlRun, setting: Setting) -> Iterator[_Finding]:
    """Checks of a value, for the setting that holds in the end."""
    last = run.setting(setting.key)
    if setting.value is UNKNOWN or last is None or last.value_place != setting.value_place:
        return
    if run.tree.is_section(setting.key):
        if not isinstance(setting.value, (dict, type(None))):
            message = f"{setting.key} is a section with keys of its own, not a single value"
            yield _Finding(Verdict("VRL254", (setting.key,), message, f"set one of its keys: {setting.key}.NAME=VALUE"))
        return
    yield from (_Finding(verdict, at_key=False) for verdict in reference_verdicts(run, setting))
    values = _values(run, setting)
    for value in values:
        single = setting if len(values) == 1 else replace(setting, value=value, raw=str(value))
        found = [] if value is UNKNOWN else list(value_verdicts(run, single))
        if found:
            # A fix would take the place of the whole sweep.
            yield _Finding(replace(found[0], fix=None) if len(values) > 1 else found[0], at_key=False)
            return


def _values(run: VerlRun, setting: Setting) -> tuple[Any, ...]:
    """The value, or each one where `--multirun` varies it; a list in YAML is no sweep, whatever it looks like."""
    of_launch = run.source == "script" and setting.place.file == run.place.file and not setting.inside
    return (of_launch and sweep_values(setting)) or (setting.value,)


def _handed_on(run: VerlRun, key: str) -> bool:
    """Whether the key is part of what verl hands on: an item of a list, keyword arguments, a named teacher."""
    names = key.split(".")
    sections = [".".join(names[:count]) for count in range(1, len(names))]
    if any(section in run.tree.defaults or section.endswith("kwargs") for section in sections):
        return True
    return key.startswith(_TEACHERS) and len(names) > 3 and run.tree.has(".".join((_TEACHER, *names[3:])))


def _mandatory(run: VerlRun) -> Iterator[Verdict]:
    """Keys that verl gives no default and that this launch needs."""
    for key in _without_default(run.version, run.tree.entry, run.engine):
        if run.is_set(key):
            continue
        section = key.rpartition(".rollout.")[0]
        if run.unseen or run.source == "config" or isinstance(run, PartOfRun) or not _used(run, section):
            continue
        severity: Severity = "warning" if run.takes_arguments or run.source == "hydra" else "error"
        message = f"not set: verl {run.version} has no default for it, and stops in a worker when it is missing"
        yield Verdict("VRL261", (key,), message, f"add {key}={'vllm' if key.endswith('.name') else 'VALUE'}", severity)


@cache
def _without_default(version: str, entry: str, engine: str) -> tuple[str, ...]:
    from verlcli.facts.verl import key_tree

    return tuple(key for key, default in key_tree(version, entry, engine).defaults.items() if default == "???")


def _used(run: VerlRun, section: str) -> bool:
    switch = f"{section}.enable"
    try:
        return not run.tree.has(switch) or bool(run.get(switch))
    except NotKnown:
        return False
