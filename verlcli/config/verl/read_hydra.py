"""A Hydra config of verl -> VerlRun: a user's own with `defaults`, a dump of a run, or a list of overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from verlcli.config.context import Context
from verlcli.config.keys import KeyPath, dotted
from verlcli.config.loader import Document, Mark, load_document, load_text
from verlcli.config.problems import Place, Problem
from verlcli.config.shell import Piece, Word
from verlcli.config.shell import Place as ShellPlace
from verlcli.config.verl.part import as_part
from verlcli.config.verl.run import Setting, VerlRun
from verlcli.config.verl.words import read_word
from verlcli.errors import ConfigError

_NOT_KEYS = ("defaults", "hydra")
_CONFIG_NAMES = {
    "fully_async": "verl.experimental.fully_async_policy.fully_async_main",
    "one_step_off": "verl.experimental.one_step_off_policy.main_ppo",
    "sft": "verl.trainer.sft_trainer",
    "main_ppo": "verl.trainer.main_ppo",
}
# YAML 1.1, which OmegaConf reads, has more words for truth than the loader of our own files.
_TRUTH = {"yes": True, "on": True, "no": False, "off": False}
_UNDERSCORED = re.compile(r"[-+]?[1-9][0-9_]*")
_SCALAR = re.compile(r"""\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|\$\{[^}]*\}[^\s,\]}]*|[^\s\[{|>][^,\]}#]*""")


def read_hydra_run(path: str, text: str, context: Context) -> tuple[VerlRun, list[Problem]]:
    """The launch that a Hydra config of verl describes, and the problems of reading it.

    `defaults` chooses entry point and engine; in a full dump, which has none, the keys themselves tell. Interpolations
    stay as they are and are resolved when a rule asks for the key.

    Raises:
        ConfigError: the text is not YAML, or hostile, or neither a mapping nor a list of overrides.
    """
    document = load_text(text, path)
    if isinstance(document.values, list):
        settings, problems = _overrides(document)
        return _run(path, {}, settings, context), problems
    if not isinstance(document.values, dict):
        raise ConfigError("no mapping of keys", where=path, fix="write sections such as `actor_rollout_ref:`")
    run = _run(path, document.values, tuple(_settings(document, text)), context)
    return as_part(run), [*document.problems, *_dotted_keys(document)]


def _dotted_keys(document: Document) -> Iterator[Problem]:
    """One problem for `actor_rollout_ref.rollout.n: 8` and the like, where Hydra sees one key with dots in its name."""
    dotted_keys = [key for key in document.values if isinstance(key, str) and "." in key and "@" not in key]
    if not dotted_keys:
        return
    first, mark = dotted_keys[0], document.marks[(dotted_keys[0],)]
    more = f" ({len(dotted_keys) - 1} more)" if len(dotted_keys) > 1 else ""
    message = (
        f"Hydra does not read dotted keys in a file: {first} becomes one key of that name, which is not read{more}"
    )
    top, *names = first.split(".")
    advice = f"nest them: {top}: {'{' + ': {'.join(names)}: {document.values[first]!s:.40}{'}' * len(names)}"
    problem = Problem("VRL240", "error", first, message, suggestion=advice)
    yield problem.at(Place(document.file, mark.key_line, mark.key_column))


def config_of_file(path: Path) -> tuple[tuple[Setting, ...], dict[str, str | None]]:
    """Settings of one Hydra config file, and its defaults list: a config's name with None, a group with its choice.

    Raises:
        ConfigError: it cannot be read.
    """
    document = load_document(path)
    return tuple(_settings(document, path.read_text(encoding="utf-8-sig"))), _defaults(document.values)


def _settings(document: Document, text: str) -> Iterator[Setting]:
    lines = text.splitlines()
    for key, value in document.values.items():
        if key not in _NOT_KEYS:
            yield from _below(document, (key,), value, lines)


def _below(document: Document, path: KeyPath, value: Any, lines: list[str]) -> Iterator[Setting]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _below(document, (*path, key), child, lines)
        return
    mark, key = document.marks[path], dotted(path)
    raw = _raw(mark, lines)
    key_place, value_place = (
        Place(document.file, *at) for at in ((mark.key_line, mark.key_column), (mark.line, mark.column))
    )
    yield Setting(key, _yaml_1_1(value, raw), key_place, value_place, "", raw, key)


def _raw(mark: Mark, lines: list[str]) -> str:
    """Text of a scalar as it stands in the file; empty when it is not on one line."""
    rest = lines[mark.line - 1][mark.column - 1 :] if 0 < mark.line <= len(lines) else ""
    match = _SCALAR.match(rest)
    return match[0].rstrip() if match else ""


def _yaml_1_1(value: Any, raw: str) -> Any:
    """What OmegaConf makes of a text without quotes."""
    if not isinstance(value, str) or raw != value:
        return value
    if value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    return int(value) if _UNDERSCORED.fullmatch(value) else value


def _overrides(document: Document) -> tuple[tuple[Setting, ...], list[Problem]]:
    """Settings of `.hydra/overrides.yaml`, a list of `key=value`."""
    readings = []
    for index, text in enumerate(document.values):
        mark = document.marks[(index,)]
        place = ShellPlace(mark.line, mark.column)
        readings.append(read_word(Word(place, (Piece(str(text), place),)), document.file, in_shell=False))
    problems = [reading.problem for reading in readings if reading.problem]
    return tuple(reading.setting for reading in readings if reading.setting), problems


def _run(path: str, values: Mapping[str, Any], settings: tuple[Setting, ...], context: Context) -> VerlRun:
    from verlcli.facts.verl import DEFAULT_VERSION, entry_of_module

    version = context.verl_version or DEFAULT_VERSION
    groups = _defaults(values)
    names = [name for name, choice in groups.items() if choice is None]
    module = _CONFIG_NAMES[_kind(values, names)]
    entry = next((found for name in names if (found := entry_of_module(module, version, name))), None)
    entry = entry or entry_of_module(module, version)
    if entry is None:
        raise ConfigError(f"verl {version} has no {module}", where=path, fix="name another version: --verl-version")
    entry = entry.with_groups(
        {**({} if names else _engine(settings)), **{key: value for key, value in groups.items() if value}}
    )
    others = [name for name in names if entry_of_module(module, version, name) is None and name != "_self_"]
    unseen = f"the config '{others[0]}'" if others else ""
    place = Place(path, 1, 1)
    return VerlRun("hydra", entry.key_tree(), settings, place, context=context, entry=entry.entry, unseen=unseen)


def _defaults(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Entries of the defaults list: a config's name with None, a group with its choice."""
    found: dict[str, str | None] = {}
    for entry in values.get("defaults") or () if isinstance(values.get("defaults"), list) else ():
        if isinstance(entry, str):
            found[entry.lstrip("/")] = None
        elif isinstance(entry, dict):
            for group, choice in entry.items():
                found[group.removeprefix("override ").strip().lstrip("/")] = str(choice)
    return found


def _kind(values: Mapping[str, Any], names: list[str]) -> str:
    if "async_training" in values or any("fully_async" in name for name in names):
        return "fully_async"
    if any("one_step_off" in name for name in names):
        return "one_step_off"
    is_sft = "actor_rollout_ref" not in values and {"model", "optim", "engine"} & set(values)
    return "sft" if is_sft or any("sft" in name for name in names) else "main_ppo"


def _engine(settings: tuple[Setting, ...]) -> dict[str, str]:
    """Engine of a dump, by the actor's strategy; where `defaults` names a config, Hydra goes by that alone."""
    strategies = [setting.value for setting in settings if setting.key == "actor_rollout_ref.actor.strategy"]
    known = ("megatron", "veomni", "torchtitan", "mindspeed")
    return {"model_engine": strategies[-1]} if strategies and strategies[-1] in known else {}
