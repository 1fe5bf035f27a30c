"""Overrides that choose a config of a group: `model_engine=megatron`, `actor@actor_rollout_ref.actor=dp_actor`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun
from verlcli.config.wording import closest, shown

_ENGINE = "model_engine"


def is_group(run: VerlRun, setting: Setting) -> bool:
    """Whether Hydra takes a setting for the choice of a group's config rather than for a key."""
    if run.source != "script":
        return False
    key = setting.key
    return key == _ENGINE or "@" in key or "/" in key or key in _groups(run)


def group_verdicts(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    """A group that this version does not have, or a choice that the group does not have."""
    name, groups = setting.key, _groups(run)
    if isinstance(setting.value, dict):
        message = f"{name} is a config group: Hydra takes the name of a config for it, not a mapping"
        yield Verdict("VRL260", (name,), message, f"set its keys one by one: {name}.KEY=VALUE")
    elif name in groups:
        yield from _choice(run, setting, groups[name])
    elif name == _ENGINE:
        advice = "write --config-name=ppo_megatron_trainer for Megatron, nothing for FSDP"
        message = f"verl {run.version} does not choose the engine by {_ENGINE}: the launch stops at once"
        yield Verdict("VRL260", (name,), message, advice)
    elif setting.prefix != "+" and not run.unseen:
        known = closest(name, tuple(groups))
        advice = f"did you mean {known}?" if known else f"groups: {', '.join(sorted(groups))}"
        yield Verdict(
            "VRL260", (name,), f"verl {run.version} has no config group {name}: the launch stops at once", advice
        )


def _choice(run: VerlRun, setting: Setting, choices: tuple[str, ...]) -> Iterator[Verdict]:
    value = setting.value
    if value is UNKNOWN or not choices or str(value) in choices or isinstance(value, list) or run.unseen:
        return
    if value is None or setting.prefix == "~":
        return
    close = closest(value, choices) if isinstance(value, str) else None
    message = f"{shown(value)} is no config of {setting.key} in verl {run.version}: the launch stops at once"
    advice = f"did you mean '{close}'? choices: {', '.join(choices)}" if close else f"choices: {', '.join(choices)}"
    fix = Fix("set", setting.key, close) if close else None
    yield Verdict("VRL260", (setting.key,), message, advice, fix=fix)


def _groups(run: VerlRun) -> dict[str, tuple[str, ...]]:
    return _of_tree(run.version, run.tree.entry, run.engine)


@cache
def _of_tree(version: str, entry: str, engine: str) -> dict[str, tuple[str, ...]]:
    from verlcli.facts.verl import config_groups

    return {group.name: group.choices for group in config_groups(version, entry, engine)}
