"""Facts about verl: the keys of each version, their types and ranges, what was renamed, what forks call things."""

from __future__ import annotations

from verlcli.facts.verl.entries import ConfigGroup, EntryPoint, config_groups, entry_of_module, versions_of_module
from verlcli.facts.verl.interpolation import UNRESOLVED
from verlcli.facts.verl.trees import (
    DEFAULT_VERSION,
    VERSIONS,
    KeyTree,
    engines,
    entries,
    key_tree,
    which_trees,
    which_versions,
)

__all__ = [
    "DEFAULT_VERSION",
    "UNRESOLVED",
    "VERSIONS",
    "ConfigGroup",
    "EntryPoint",
    "KeyTree",
    "config_groups",
    "engines",
    "entries",
    "entry_of_module",
    "key_tree",
    "versions_of_module",
    "which_trees",
    "which_versions",
]
