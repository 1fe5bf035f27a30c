"""A config of ours -> what verl is told: every key with its value and where it was written; and that as a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verlcli.config.context import Context
from verlcli.config.keys import default_at, dotted, known_keys, schema_at
from verlcli.config.layers import Origin
from verlcli.config.problems import Place
from verlcli.config.resolve import Resolved
from verlcli.config.verl.mapping import BASE, PAIRS
from verlcli.config.verl.pairs import Given, View, equal
from verlcli.config.verl.run import Prefix, Setting, VerlRun

if TYPE_CHECKING:
    from verlcli.config.load import Loaded
    from verlcli.facts.verl import KeyTree

GROUP = "model_engine"  # verl's config group of training engines
_RANKS = {"default": 0, "preset": 2, "file": 3, "env": 4, "override": 5, "flag": 6}
_BASE_RANK = 1
_SAID = ("file", "env", "override", "flag")
_PART = re.compile(r"[A-Za-z_][\w-]*|[0-9]+")
_DEFAULT = Origin("default", "default")
_NOT_FOR_VERL = ("backend", "extends", "verl", "monitor")


@dataclass(frozen=True, slots=True)
class Told:
    """One key that verl is told.

    Attributes:
        key: of verl.
        value: as verl understands it.
        ours: dotted key of ours that it comes from, `verl.KEY` for one handed on as it is.
        origin: where that was written.
    """

    key: str
    value: Any
    ours: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Translation:
    """All that verl is told, and what it is not.

    Attributes:
        tree: verl's keys that hold for it.
        told: in the order of our schema, then what stands under `verl:`.
        left_out: keys of ours that a file, a preset or a user set and that verl has no counterpart for.
        place: of the config as a whole.
        twice: keys of ours that somebody set and that a key under `verl:` contradicts, each with that key.
    """

    tree: KeyTree
    told: tuple[Told, ...]
    left_out: tuple[str, ...]
    place: Place
    twice: tuple[tuple[str, str], ...] = ()


def translate(config: Resolved | Loaded, version: str | None = None) -> Translation:
    """What verl is told by `config`: keys that somebody set, those whose value is not verl's own default, and `verl:`.

    A key under `verl:` wins over the key of ours that means the same, unless that one was set by a higher layer. What
    the preset of verl's defaults says is never handed on: it stands for what verl does when told nothing.

    Args:
        version: of verl; None: the default one.

    Raises:
        ConfigError: no such version of verl.
    """
    origins = {key if isinstance(key, str) else dotted(key): history for key, history in config.origins.items()}
    leaves = list(_leaves(config.values.get("verl"), ""))
    tree = _tree(config.values, dict(leaves), version)
    view = View(
        tree,
        config.values,
        said=lambda key: _origin(origins, key).kind in _SAID,
        based=lambda key: _is_base(_origin(origins, key)),
        kept=dict(leaves),
    )
    given = _given(view)
    told = tuple(_settled(given, leaves, origins))
    covered = {key for pair in PAIRS if pair.carries(view) for key in pair.ours}
    names = map(dotted, known_keys())
    asked = [key for key in names if _origin(origins, key).kind != "default" and not view.based(key)]
    left_out = [key for key in asked if key not in covered and _matters(view, key)]
    return Translation(tree, told, tuple(left_out), _place(origins), tuple(_twice(given, told, view)))


def run_of_config(config: Resolved | Loaded, context: Context) -> VerlRun:
    """A config of ours with `backend: verl` as a launch of verl, for the rules about launches.

    Raises:
        ConfigError: no such version of verl.
    """
    return run_of_translation(translate(config, context.verl_version), context)


def run_of_translation(found: Translation, context: Context) -> VerlRun:
    """What verl is told, as a launch; see `run_of_config`."""
    names = {key: pair.ours[0] for pair in reversed(PAIRS) for key in pair.keys(found.tree)}
    settings = tuple(map(_setting, found.told))
    return VerlRun("config", found.tree, settings, found.place, context=context, names=names)


def shadowed_keys(config: Resolved | Loaded) -> frozenset[str]:
    """Keys of ours whose meaning a key under `verl:` decides, so that their own value says nothing."""
    found = translate(config)
    ours = {told.key for told in found.told if not told.ours.startswith("verl.")}
    kept = {key for key, _ in _leaves(config.values.get("verl"), "")} - ours
    return frozenset(key for pair in PAIRS if kept.intersection(pair.keys(found.tree)) for key in pair.ours)


def is_group(key: str) -> bool:
    """Whether a key of verl chooses a config of a group, and takes no `+`."""
    return key == GROUP or "@" in key or "/" in key


def _tree(values: Mapping[str, Any], leaves: Mapping[str, Any], version: str | None) -> KeyTree:
    from verlcli.facts.verl import DEFAULT_VERSION, engines, key_tree

    version = version or DEFAULT_VERSION
    actor = values.get("actor")
    mcore = isinstance(actor, Mapping) and actor.get("training_engine") == "mcore"
    engine = leaves.get(GROUP, "megatron" if mcore else "dp")
    # A misspelt engine is reported as a wrong choice; the other keys are those of verl's own choice.
    return key_tree(version, "main_ppo", engine if engine in engines(version) else "dp")


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Keys of verl with their values; a mapping whose names are no names for Hydra stays whole."""
    if isinstance(value, Mapping) and value and (not key or all(map(_PART.fullmatch, value))):
        for name, child in value.items():
            yield from _leaves(child, f"{key}.{name}" if key else str(name))
    elif key:
        yield key, value


def _given(view: View) -> list[Given]:
    found: list[Given] = []
    for pair in PAIRS:
        found += pair.give(view, {each.key: each.value for each in found})
    return found


def _settled(
    given: list[Given], leaves: list[tuple[str, Any]], origins: Mapping[str, tuple[Origin, ...]]
) -> Iterator[Told]:
    """Of a key said by us and under `verl:`, the one that wins."""
    rest = dict(leaves)
    for each in given:
        origin = _origin(origins, each.ours)
        wins = each.key not in rest or (
            not each.follows and _rank(origin) > _rank(_origin(origins, f"verl.{each.key}"))
        )
        if wins:
            rest.pop(each.key, None)
            yield Told(each.key, each.value, each.ours, origin)
    for key, value in rest.items():
        origin = _origin(origins, f"verl.{key}")
        if not _is_base(origin):
            yield Told(key, value, f"verl.{key}", origin)


def _twice(given: list[Given], told: tuple[Told, ...], view: View) -> Iterator[tuple[str, str]]:
    kept = {each.key: each.value for each in told if each.ours.startswith("verl.")}
    for each in given:
        said = view.said(each.ours) and not each.follows
        # A copy of the base spells out verl's defaults under `verl:` where no key of ours can say them.
        own = each.key in kept and not equal(kept[each.key], view.tree.defaults.get(each.key))
        if said and own and not equal(kept[each.key], each.value):
            yield each.ours, each.key


def _origin(origins: Mapping[str, tuple[Origin, ...]], key: str) -> Origin:
    history = origins.get(key) or next((found for name, found in origins.items() if name.startswith(f"{key}.")), ())
    return history[-1] if history else _DEFAULT


def _is_base(origin: Origin) -> bool:
    return origin.kind == "preset" and Path(origin.file or "").stem == BASE


def _rank(origin: Origin) -> int:
    return _BASE_RANK if _is_base(origin) else _RANKS[origin.kind]


def _matters(view: View, key: str) -> bool:
    node = schema_at(key.split("."))
    if key.split(".")[0] in _NOT_FOR_VERL or not node:
        return False
    value = view.value(key)
    return value != "auto" and not equal(value, default_at(node))


def _place(origins: Mapping[str, tuple[Origin, ...]]) -> Place:
    files = [history[-1].file for history in origins.values() if history[-1].kind == "file" and history[-1].file]
    return Place(files[-1], 1, 1) if files else Place(origin="the config")


def _setting(told: Told) -> Setting:
    origin = told.origin
    if origin.file is None or origin.kind == "default":
        place = value_place = Place(origin=origin.label)
    else:
        place = Place(origin.file, origin.key_line, origin.key_column)
        value_place = Place(origin.file, origin.line, origin.column)
    written = origin.written if origin.written and origin.kind != "default" else told.ours
    prefix: Prefix = "~" if told.key.startswith("~") else "" if is_group(told.key) else "++"
    return Setting(told.key.lstrip("~"), told.value, place, value_place, prefix, str(told.value), written)
