"""Which entry point of verl a launch starts, and so which keys it takes; forks and other trainers are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verlcli.config.problems import Severity
    from verlcli.facts.verl import EntryPoint

# First part of a module, or the program itself -> the trainer that it belongs to.
_OTHERS = {
    "openrlhf": "OpenRLHF",
    "trl": "TRL",
    "slime": "slime",
    "areal": "AReaL",
    "nemo_rl": "NeMo RL",
    "roll": "ROLL",
    "swift": "ms-swift",
    "llamafactory": "LLaMA-Factory",
    "llamafactory-cli": "LLaMA-Factory",
}
_SLIP, _SAME_FOLDER = 0.85, 0.8  # likeness of the last part of a module's name, and of the package before it
_SURE = 3  # keys below actor_rollout_ref that make a launch of somebody's own program one of verl


@dataclass(frozen=True, slots=True)
class Command:
    """What is known of a launch before its keys are read.

    Attributes:
        module: as after `-m`, or a file.
        version: of verl, one of `VERSIONS`.
        pinned: whether somebody named the version, so that no other one is tried.
        config_name: as after `--config-name`.
        groups: config groups that it chooses.
        keys: of its overrides.
    """

    module: str
    version: str
    pinned: bool = False
    config_name: str | None = None
    groups: Mapping[str, str] | None = None
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a launch starts.

    Attributes:
        entry: entry point of verl whose keys it takes; None when they are not known.
        code, remark: what has to be said about it; empty when there is nothing.
        unseen: what may hold more than verl's own defaults and was not read; empty without it.
        severity: of the remark; None: as the reader of the script sees fit.
    """

    entry: EntryPoint | None
    code: str = ""
    remark: str = ""
    unseen: str = ""
    severity: Severity | None = None


def choose_entry(command: Command) -> Chosen | None:
    """The entry point that a launch starts; None for a program that has nothing to do with RL training."""
    from verlcli.facts.verl import entry_of_module, versions_of_module

    module, version, groups = command.module, command.version, command.groups or {}
    found = entry_of_module(module, version, command.config_name)
    if found is not None:
        return Chosen(found.with_groups(groups))
    plain = entry_of_module(module, version)
    if plain is not None:
        config = f"the config '{command.config_name}'"
        remark = f"{config} is not one of verl {version}, so that keys and defaults which it brings are not known"
        return Chosen(plain.with_groups(groups), "VRL337", remark, config)
    shipped = versions_of_module(module)
    return _of_other_version(command, shipped) if shipped else _foreign(command)


def _of_other_version(command: Command, shipped: tuple[str, ...]) -> Chosen:
    from verlcli.facts.verl import entry_of_module
    from verlcli.facts.verl.renames import MODULE_RENAMES

    last, module = shipped[-1], command.module
    remark = f"verl {command.version} has no {module}; verl {last} is the last that has it"
    entry = entry_of_module(module, last, command.config_name) or entry_of_module(module, last)
    # Recipes live on in a repository of their own.
    severity: Severity | None = "error" if module.startswith("verl.") else None
    if command.pinned or entry is None:
        checked, entry = "this launch is not checked", None
    else:
        checked, entry = f"this launch is checked for {last}", entry.with_groups(command.groups or {})
    advice = f"check it with --verl-version {last}"
    if module in MODULE_RENAMES:
        advice = f"write {MODULE_RENAMES[module][0]}, or {advice}"
    return Chosen(entry, "VRL332", f"{remark}, and {checked}: {advice}", "", severity)


def _foreign(command: Command) -> Chosen | None:
    from verlcli.facts.verl import entry_of_module

    fork = _fork_of(command.module)
    if fork:
        return Chosen(None, "VRL331", f"{command.module} is {fork}. This launch is not checked")
    meant = _meant_module(command)
    if meant is not None:
        remark = f"verl has no module {command.module}, so that python stops at once: write -m {meant.module}"
        return Chosen(meant.with_groups(command.groups or {}), "VRL332", remark, "", "error")
    if sum(key.startswith("actor_rollout_ref.") for key in command.keys) < _SURE:
        return None
    plain = entry_of_module("verl.trainer.main_ppo", command.version)
    remark = f"{command.module or 'the program'} is not verl's own: it is checked as verl.trainer.main_ppo"
    unseen = f"the config of {command.module or 'the program'}"
    return Chosen(plain and plain.with_groups(command.groups or {}), "VRL338", remark, unseen)


def _meant_module(command: Command) -> EntryPoint | None:
    """The entry point that a slip in a module's name means; a copy with a name of its own is none."""
    from verlcli.facts.verl import entry_of_module
    from verlcli.facts.verl.entries import modules

    package, _, name = command.module.rpartition(".")
    if not command.module.startswith("verl.") or "/" in command.module:
        return None
    for known in modules(command.version):
        folder, _, leaf = known.rpartition(".")
        slip = folder == package and _alike(name, leaf) >= _SLIP and not name.startswith(leaf)
        if slip or (leaf == name and _alike(package, folder) >= _SAME_FOLDER):
            return entry_of_module(known, command.version, command.config_name) or entry_of_module(
                known, command.version
            )
    return None


def _alike(first: str, second: str) -> float:
    return SequenceMatcher(None, first, second).ratio()


def _fork_of(module: str) -> str:
    """`an entry point of EasyR1`, `OpenRLHF, another trainer`, or nothing."""
    from verlcli.facts.verl.forks import FORK_ENTRIES

    fork = next((fork for fork in FORK_ENTRIES if fork.module == module), None)
    if fork is not None:
        return f"an entry point of {fork.name}, a fork of verl, which {fork.note}"
    root = module.replace("/", ".").lstrip(".").partition(".")[0]
    return f"{_OTHERS[root]}, another trainer" if root in _OTHERS else ""
