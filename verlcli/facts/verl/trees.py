"""The tree of keys that one verl version, entry point and engine accepts, with verl's own defaults."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice, takewhile
from typing import Any

from verlcli.errors import ConfigError
from verlcli.facts.verl.data import DEFAULT, EXTRA, facts, part, tree_mask
from verlcli.facts.verl.interpolation import UNRESOLVED, Get, resolve

VERSIONS = ("0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.0", "0.9.1", "main")  # as in keys.json, without reading it
DEFAULT_VERSION = "0.9.1"
# Sections handed on as they are: to a model, an optimizer, Megatron, Ray, a reward manager, Nsight or an engine.
_OPEN_PREFIX = "override_"
_OPEN_NAMES = (
    *("ray_init", "reward_kwargs", "controller_nsight_options", "worker_nsight_options"),
    *("mcore_kwargs", "fsdp_kwargs", "teacher_models"),
)
_OPEN_PARENT = "engine_kwargs"

# Entries of verl itself; recipes carry keys of older releases along.
OWN_ENTRIES = ("main_ppo", "fully_async", "one_step_off", "sft", "sft_legacy", "eval", "generation")
# Sections that verl passes to omega_conf_to_dataclass, and the first of VERSIONS that does: their unknown keys die.
_BUILT = {
    "actor_rollout_ref.profiler": "0.5.0",
    "critic.profiler": "0.5.0",
    "actor_rollout_ref.actor": "0.6.1",
    "critic": "0.6.1",
    "actor_rollout_ref.rollout": "0.6.1",
    "actor_rollout_ref.model": "0.6.1",
    "actor_rollout_ref.ref": "0.7.1",
    "model": "0.6.1",
    "engine": "0.6.1",
    "optim": "0.6.1",
    "checkpoint": "0.6.1",
    "profiler": "0.7.1",
    "skip": "0.9.0",
}


@dataclass(frozen=True)
class KeyTree:
    """Keys of one tree. A key is written with dots: `actor_rollout_ref.rollout.n`."""

    version: str
    entry: str  # "main_ppo", "fully_async", "sft", ...; "main_ppo:NAME" for a config of verl's examples
    engine: str  # "dp", "megatron", ...
    defaults: Mapping[str, Any]  # leaves, as written in the YAML
    extras: Mapping[str, Any]  # fields that the dataclass alone has; None also where its default is made at run time

    def has(self, key: str) -> bool:
        """Whether `key` stands in the tree, so that `key=value` works without a `+`."""
        return key in self.defaults or key in self._children

    def default(self, key: str) -> Any:
        """Default as written: an interpolation stays a string, `???` means that a value is mandatory.

        Raises:
            KeyError: no such key, or a section.
        """
        return self.defaults[key]

    def is_section(self, key: str) -> bool:
        """Whether other keys stand below `key`."""
        return key in self._children

    def is_free_form(self, key: str) -> bool:
        """Whether anything may be added below `key`, or `key` itself is such an addition."""
        return any(self._open(name) for name in _self_and_parents(key))

    def keys(self) -> tuple[str, ...]:
        """All leaves, sorted."""
        return tuple(self.defaults)

    def children(self, section: str) -> tuple[str, ...]:
        """Names right below a section, sorted; `""` for the top level."""
        return self._children.get(section, ())

    def extra_fields(self, section: str) -> tuple[str, ...]:
        """Names right below a section that only its dataclass has: legal with `+` alone."""
        start = f"{section}." if section else ""
        names = {key[len(start) :].split(".")[0] for key in self.extras if key.startswith(start)}
        return tuple(sorted(names.difference(self.children(section))))

    def is_extra(self, key: str) -> bool:
        """Whether `+key=value` sets a field (or part of one) that the YAML does not show."""
        return key in self._extra_names and not self.has(key)

    def target(self, section: str) -> str | None:
        """Class that stands behind a section; see `rejects_unknown` for whether verl makes it."""
        found = self.defaults.get(f"{section}._target_")
        return found if isinstance(found, str) else None

    def rejects_unknown(self, section: str) -> bool:
        """Whether `+section.unknown=value` dies: verl builds the class behind the section, in a worker at the latest.

        Elsewhere such a key is composed and then ignored, unless code asks for it by name.
        """
        if self.target(section) is None or self.is_free_form(section):
            return False
        roots = [root for root in _self_and_parents(section) if root in _BUILT]
        return any(VERSIONS.index(self.version) >= VERSIONS.index(_BUILT[root]) for root in roots)

    def resolve_default(self, key: str, get: Get) -> Any:
        """Default of `key` with its interpolations resolved through `get`; UNRESOLVED if one cannot be.

        Raises:
            KeyError: no such key.
        """
        return resolve(self.defaults[key], key, get)

    def value(self, key: str, overrides: Mapping[str, Any]) -> Any:
        """What `key` is once `overrides` (flat keys) are applied; UNRESOLVED where it has no value."""
        return self._value(key, overrides, frozenset())

    def _value(self, key: str, overrides: Mapping[str, Any], busy: frozenset[str]) -> Any:
        if key in busy:
            return UNRESOLVED  # two keys that stand for each other
        raw = overrides.get(key, self.defaults.get(key, UNRESOLVED))
        return resolve(raw, key, lambda other: self._value(other, overrides, busy | {key}))

    def _open(self, key: str) -> bool:
        parent, _, name = key.rpartition(".")
        if self.defaults.get(key) == {} or self.extras.get(key) == {}:
            return True
        handed_on = name.startswith(_OPEN_PREFIX) or name in _OPEN_NAMES or parent.endswith(_OPEN_PARENT)
        if key in self.defaults:
            return handed_on and (self.defaults[key] is None or "${" in str(self.defaults[key]))
        return handed_on and (key in self._children or (name == "reward_kwargs" and parent in self._children))

    @cached_property
    def _extra_names(self) -> frozenset[str]:
        """Fields of the dataclasses alone, and the sections that they stand in."""
        return frozenset(name for key in self.extras for name in _self_and_parents(key))

    @cached_property
    def _children(self) -> dict[str, tuple[str, ...]]:
        names: dict[str, set[str]] = {}
        for key in self.defaults:
            section, _, name = key.rpartition(".")
            while name not in names.setdefault(section, set()):
                names[section].add(name)
                section, _, name = section.rpartition(".")
                if not name:
                    break
        return {section: tuple(sorted(children)) for section, children in names.items()}


def _self_and_parents(key: str) -> list[str]:
    names = key.split(".")
    return [".".join(names[:count]) for count in range(len(names), 0, -1)]


@cache
def key_tree(version: str = DEFAULT_VERSION, entry: str = "main_ppo", engine: str = "dp") -> KeyTree:
    """The tree of one version, entry point and engine; read once, at most a few milliseconds.

    Raises:
        ConfigError: no such version, no such entry point in it, or no such engine for it.
    """
    data = facts()
    mask = tree_mask(version, entry, engine)
    if not mask:
        raise _unknown(version, entry, engine)
    defaults: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    holds = [bool(found & mask) for found in data.sets]
    for key, row in data.keys.items():
        for which, found in ((DEFAULT, defaults), (EXTRA, extras)):
            flat = part(row, which)
            for index in range(0, len(flat), 2):
                if holds[flat[index + 1]]:
                    found[key] = flat[index]
    return KeyTree(version, entry, engine, defaults, extras)


@cache
def engines(version: str, entry: str = "main_ppo") -> tuple[str, ...]:
    """Engines for which an entry point has a tree; empty if the version does not have the entry point."""
    found = [name.split("/") for name in facts().trees]
    return tuple(engine for of, tree, engine in found if (of, tree) == (version, entry))


def entries(version: str) -> tuple[str, ...]:
    """Entry points that have a tree in a version."""
    return tuple(dict.fromkeys(name.split("/")[1] for name in facts().trees if name.startswith(f"{version}/")))


def _unknown(version: str, entry: str, engine: str) -> ConfigError:
    if version not in VERSIONS:
        return ConfigError(f"no facts about verl {version}", fix=f"choose one of: {', '.join(VERSIONS)}")
    if not engines(version, entry):
        known = ", ".join(name for name in entries(version) if ":" not in name)
        return ConfigError(f"verl {version} has no entry point '{entry}'", fix=f"choose one of: {known}")
    known = ", ".join(engines(version, entry))
    return ConfigError(f"verl {version}: {entry} does not run on '{engine}'", fix=f"choose one of: {known}")


def which_versions(key: str, entry: str | None = None) -> tuple[str, ...]:
    """Versions in which `key` stands in a tree of `entry`, or of any entry of verl's own; sections count too."""
    holders, wanted = _holders(key), OWN_ENTRIES if entry is None else (entry,)
    return tuple(version for version in VERSIONS if holders & sum(tree_mask(version, name) for name in wanted))


def which_trees(key: str, version: str) -> tuple[str, ...]:
    """Trees of a version that have `key`, as `entry/engine`: "main_ppo/megatron"."""
    holders = _holders(key)
    found = [name for index, name in enumerate(facts().trees) if holders >> index & 1]
    return tuple(name.partition("/")[2] for name in found if name.startswith(f"{version}/"))


@cache
def _holders(key: str) -> int:
    data, names, below = facts(), _sorted_keys(), f"{key}."
    start = bisect_left(names, below)
    holders = [key, *takewhile(lambda name: name.startswith(below), islice(names, start, None))]
    mask = 0
    for name in holders:
        for index in part(data.keys.get(name, ()), DEFAULT)[1::2]:
            mask |= data.sets[index]
    return mask


@cache
def _sorted_keys() -> tuple[str, ...]:
    return tuple(sorted(facts().keys))
