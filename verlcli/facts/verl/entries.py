"""Which Python module starts what: from `python3 -m MODULE --config-name NAME` to an entry point, engine and tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from verlcli.facts.verl.data import facts, tree_mask
from verlcli.facts.verl.trees import DEFAULT_VERSION, VERSIONS, KeyTree, engines, key_tree

# The command line says it in its own words: the SFT trainer calls FSDP `engine=fsdp`.
_ENGINE_ALIASES = {"fsdp": "dp", "fsdp2": "dp"}


@dataclass(frozen=True)
class EntryPoint:
    """One module of verl with one of its configs."""

    version: str
    module: str
    config_name: str
    entry: str  # canonical: "main_ppo", "fully_async", "one_step_off", "sft", "dapo", "generation_server", ...
    tree: str  # entry whose keys it takes; differs from `entry` where two modules share a config
    engine: str

    def key_tree(self) -> KeyTree:
        """The keys that this command accepts."""
        return key_tree(self.version, self.tree, self.engine)

    def with_groups(self, chosen: Mapping[str, str]) -> EntryPoint:
        """The same with config groups chosen on the command line: `{"model_engine": "megatron"}`.

        An engine that the version does not have changes nothing: `config_groups` tells what is allowed.
        """
        choice = chosen.get("model_engine", chosen.get("engine", self.engine))
        engine = _ENGINE_ALIASES.get(choice, choice)
        return replace(self, engine=engine) if engine in engines(self.version, self.tree) else self


@dataclass(frozen=True)
class ConfigGroup:
    """A Hydra config group as it is chosen on the command line: `name=choice`."""

    name: str  # "model_engine", "actor@actor_rollout_ref.actor"
    default: str
    choices: tuple[str, ...]


def entry_of_module(module: str, version: str = DEFAULT_VERSION, config_name: str | None = None) -> EntryPoint | None:
    """The entry point of a module; None if this version does not have the module, or the config.

    Args:
        module: `verl.trainer.main_ppo`, or its file `verl/trainer/main_ppo.py`, maybe below other folders.
        version: one of VERSIONS.
        config_name: as after `--config-name`, with or without `.yaml`; None: what the module names itself.
    """
    name = None if config_name is None else PurePosixPath(config_name).name.removesuffix(".yaml")
    for key, (entry, tree, engine, default, versions) in facts().modules.items():
        known, _, config = key.partition("/")
        if version in versions and _same(module, known) and (config == name if name is not None else default):
            return EntryPoint(version, known, config, entry, tree, engine)
    return None


def versions_of_module(module: str) -> tuple[str, ...]:
    """Versions that ship an entry point, oldest first; empty for a module that verl never had."""
    rows = [row[-1] for key, row in facts().modules.items() if _same(module, key.partition("/")[0])]
    return tuple(version for version in VERSIONS if any(version in versions for versions in rows))


def modules(version: str) -> tuple[str, ...]:
    """All modules of a version that can be started, sorted."""
    return tuple(sorted({key.partition("/")[0] for key, row in facts().modules.items() if version in row[-1]}))


def config_groups(version: str, entry: str = "main_ppo", engine: str = "dp") -> tuple[ConfigGroup, ...]:
    """Config groups of a tree with what may be chosen; empty for a tree that has none."""
    data = facts()
    mask = tree_mask(version, entry, engine)
    found = [(name, next(data.pick(flat, mask), None)) for name, flat in data.groups.items()]
    files = data.choices.get(version, {})
    return tuple(
        ConfigGroup(name, default, tuple(files.get(name.partition("@")[0], ())))
        for name, default in found
        if default is not None
    )


def _same(given: str, known: str) -> bool:
    dotted = given.removesuffix(".py").replace("/", ".").lstrip(".") if given.endswith(".py") else given
    return dotted == known or (given.endswith(".py") and dotted.endswith(f".{known}"))
