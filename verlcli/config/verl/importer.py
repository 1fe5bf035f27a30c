"""A launch of verl -> a config of ours that tells verl the same: our keys where they exist, the rest under `verl:`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from verlcli.config.keys import known_keys, schema_at
from verlcli.config.verl.mapping import BASE, PAIRS
from verlcli.config.verl.pairs import Given, View, equal
from verlcli.config.verl.settings import UNKNOWN, Setting

if TYPE_CHECKING:
    from verlcli.config.verl.run import VerlRun

_NAME = re.compile(r"\$([A-Za-z_]\w*)")
_MOST_KEYS = 2
_OUTSIDE = ("the home folder", "the folder it runs in")
_ENGINE = "actor.training_engine"
_MOST_ROUNDS = 10  # no pair has more than three keys of ours to give up


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A key that could not be taken over, because only a run of the script tells its value."""

    setting: Setting
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """What a launch says, as a config of ours.

    Attributes:
        ours: values by dotted key of ours, in the schema's order.
        kept: values by key of verl, for `verl:`, in the launch's order.
        variables: shell variables that values came through, by dotted key (`verl.KEY` for those kept).
        environment: keys of verl whose value reads environment variables when verl starts.
        left_out: what somebody has to fill in.
    """

    ours: Mapping[str, Any]
    kept: Mapping[str, Any]
    variables: Mapping[str, str]
    environment: Mapping[str, Setting]
    left_out: tuple[LeftOut, ...]


def import_run(run: VerlRun) -> Imported:
    """Take over one launch; what it says to verl and what the config says to verl is the same.

    A key of ours is used only where its translation back gives just what the launch says; all else is kept as it is.
    """
    settings, left_out, environment = _known(run)
    said = {setting.key: setting.value for setting in settings if setting.prefix != "~"}
    ours, given = _agreed(run, said)
    told = {each.key: each.value for each in given}
    kept = {key: value for key, value in said.items() if key not in told or not equal(told[key], value)}
    kept |= {f"~{setting.key}": None for setting in settings if setting.prefix == "~"}
    sources = {each.ours: each.key for each in given if not each.follows}
    named = {setting.key: setting.variable for setting in settings if setting.variable}
    through = _telling({key: name for key, name in named.items() if key not in environment})
    variables = {key: through[verl] for key, verl in sources.items() if verl in through}
    variables |= {f"verl.{key}": through[key] for key in kept if key in through}
    return Imported(_in_order(ours), kept, variables, environment, tuple(left_out))


def _telling(through: Mapping[str, str]) -> dict[str, str]:
    """Without arrays of overrides: a name that many keys came through says nothing about one of them."""
    counts = Counter(through.values())
    return {key: name for key, name in through.items() if counts[name] <= _MOST_KEYS}


def _known(run: VerlRun) -> tuple[list[Setting], list[LeftOut], dict[str, Setting]]:
    """The settings that hold, with environment variables in Hydra's spelling; those not known; those so spelt."""
    last = {(setting.prefix == "~", setting.key): setting for setting in run.settings if not setting.inside}
    if run.source == "hydra" and len(last) > len(run.tree.keys()) / 2:
        last = {key: setting for key, setting in last.items() if not _is_default(run, setting)}
    known, left_out, environment = [], [], {}
    for setting in last.values():
        if setting.value is not UNKNOWN and not setting.reason:
            known.append(setting)
            continue
        text = _environment_text(run, setting)
        if text is None:
            left_out.append(LeftOut(setting, setting.reason or "is known at run time only"))
        else:
            known.append(replace(setting, value=text))
            environment[setting.key] = setting
    return known, left_out, environment


def _is_default(run: VerlRun, setting: Setting) -> bool:
    """Whether a dump of a whole config only repeats verl's own default there."""
    return setting.key in run.tree.defaults and equal(run.tree.default(setting.key), setting.value)


def _environment_text(run: VerlRun, setting: Setting) -> Any:
    """`$HOME/x` as `${oc.env:HOME}/x`, also in a list; None where more than environment variables are open."""
    if setting.value is UNKNOWN:
        if not _NAME.fullmatch(setting.raw) or not _of_environment(setting.reason):
            return None
        text = f"${{oc.env:{setting.raw[1:]}}}"
        # The variable's text is a number or a switch only once it is decoded.
        return f"${{oc.decode:{text}}}" if _is_scalar(run, setting.key) else text
    return _spelt(setting.value) if _of_environment(setting.reason) else None


def _spelt(value: Any) -> Any:
    if isinstance(value, list):
        items = [_spelt(item) for item in value]
        return None if any(item is None for item in items) else items
    if not isinstance(value, str):
        return None if isinstance(value, dict) else value
    text = _NAME.sub(r"${oc.env:\1}", value)
    return None if "$" in text.replace("${oc.env:", "") else text


def _of_environment(reason: str) -> bool:
    """Whether the reader of the script says that a variable comes from outside of it."""
    if reason in _OUTSIDE:
        return True
    return reason.startswith("$") and reason.endswith(("is set by the machine", "has no value"))


def _is_scalar(run: VerlRun, key: str) -> bool:
    from verlcli.facts.verl.types import expected_type

    kinds = set((expected_type(key, run.version) or "").split("|"))
    return bool(kinds & {"integer", "number", "boolean"}) and "string" not in kinds


def _agreed(run: VerlRun, said: Mapping[str, Any]) -> tuple[dict[str, Any], list[Given]]:
    """Our keys that tell verl nothing that the launch does not say, and what they tell it."""
    taken = {pair: _fitting(pair.take(said, run.tree)) for pair in PAIRS}
    if run.engine == "megatron" and not any(_ENGINE in values for values in taken.values()):
        taken = {pair: {_ENGINE: "mcore"} if _ENGINE in pair.ours else values for pair, values in taken.items()}
    for _ in range(_MOST_ROUNDS):
        ours = {key: value for values in taken.values() for key, value in values.items()}
        view = _view(run, ours, said)
        told: dict[str, list[Given]] = {}
        for index, pair in enumerate(PAIRS):
            before = {each.key: each.value for found in told.values() for each in found}
            told[str(index)] = pair.give(view, before)
        wrong = [pair for pair, found in zip(PAIRS, told.values(), strict=True) if not _says(found, said)]
        if not any(taken[pair] for pair in wrong):
            return ours, [each for found in told.values() for each in found if each.key in said]
        taken |= {pair: _without_last(taken[pair]) for pair in wrong}
    return {}, []


def _says(given: list[Given], said: Mapping[str, Any]) -> bool:
    """Whether the launch says all of it; what only goes along gives way to what stands under `verl:`."""
    return all(
        each.ours == _ENGINE or (each.key in said and (each.follows or equal(said[each.key], each.value)))
        for each in given
    )


def _without_last(values: Mapping[str, Any]) -> dict[str, Any]:
    """One key fewer: where the estimator does not translate, the coefficient still may."""
    return dict(list(values.items())[:-1])


def _fitting(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without values that our schema does not take, or that only Hydra can resolve."""
    return {key: value for key, value in values.items() if "${" not in str(value) and _allowed(key, value)}


def _allowed(key: str, value: Any) -> bool:
    from verlcli.config.violations import violations

    if key == "reward.function" and not os.path.isfile(value[0].rpartition(":")[0] or value[0]):
        return False  # ours must be there when a config is checked; verl's only when it runs
    return not violations(schema_at(key.split(".")) or {}, value)


def _view(run: VerlRun, ours: Mapping[str, Any], said: Mapping[str, Any]) -> View:
    values = _base_values()
    for key, value in ours.items():
        section, _, name = key.rpartition(".")
        place = values
        for part in section.split("."):
            place = place[part]
        place[name] = value
    return View(run.tree, values, ours.__contains__, lambda key: key not in ours, said)


def _base_values() -> dict[str, Any]:
    from verlcli.config.resolve import resolve

    return resolve([BASE], env={}).values


def _in_order(ours: Mapping[str, Any]) -> dict[str, Any]:
    order = {".".join(path): index for index, path in enumerate(known_keys())}
    return {key: ours[key] for key in sorted(ours, key=order.__getitem__)}
