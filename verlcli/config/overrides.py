"""`-o KEY=VALUE`, `VERL_CFG__A__B=value` and a command's own flags -> layers above the files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from verlcli.config.keys import KeyPath, plain, schema_at
from verlcli.config.layers import Layer, document_layer, removal_layer
from verlcli.config.loader import Document, load_text
from verlcli.errors import ConfigError

ENV_PREFIX = "VERL_CFG__"


def override_layers(overrides: Iterable[str]) -> list[Layer]:
    """One layer for each `KEY=VALUE` (VALUE is YAML) or `~KEY` (back to the default), labelled `-o #N`.

    Raises:
        ConfigError: no `=`, an empty key, or VALUE is not YAML.
    """
    return [_override(text, f"-o #{number}") for number, text in enumerate(overrides, start=1)]


def environment_layers(environment: Mapping[str, str]) -> list[Layer]:
    """One layer for each variable `VERL_CFG__A__B` (case does not matter), sorted by name.

    Raises:
        ConfigError: an empty part in the name, or the value is not YAML.
    """
    found = sorted(name for name in environment if name.upper().startswith(ENV_PREFIX))
    return [_variable(name, environment[name]) for name in found]


def flag_layers(flags: Mapping[str, Any]) -> list[Layer]:
    """One layer for each dotted key whose value is not None, labelled by its last part: `--output-dir`."""
    return [_flag(key, value) for key, value in flags.items() if value is not None]


def _override(text: str, label: str) -> Layer:
    if text.startswith("~") and "=" not in text:
        return removal_layer(_path(text[1:], label), "override", label)
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"'{text}' has no '='", where=label, fix=_with_equals(text))
    return document_layer(load_text(value, label), "override", label, _path(key, label))


def _with_equals(text: str) -> str:
    pair = re.fullmatch(r"([\w.]+)(?:: *| +)((?!.*: )\S.*)", text)
    return f"write -o {pair[1]}={pair[2]}" if pair else "write -o KEY=VALUE, or -o ~KEY to remove a key"


def _path(key: str, label: str) -> KeyPath:
    parts = tuple(key.strip().lstrip("+").split("."))
    if not all(parts):
        raise ConfigError(f"'{key}' is no key", where=label, fix="write a dotted key, such as rollout.n=4")
    return parts


def _variable(name: str, value: str) -> Layer:
    label = f"env {name}"
    parts: tuple[str, ...] = ()
    for part in name[len(ENV_PREFIX) :].split("__"):
        # Shells and Windows write capitals; only inside a free map can a mixed-case part be meant as it is.
        parts += (part.lower() if part.isupper() or schema_at((*parts, part.lower())) else part,)
    if not all(parts):
        raise ConfigError("an empty part in the name", where=label, fix=f"write {ENV_PREFIX}SECTION__KEY")
    return document_layer(load_text(value, label), "env", label, parts)


def _flag(key: str, value: Any) -> Layer:
    parts = tuple(key.split("."))
    label = "--" + str(parts[-1]).replace("_", "-")
    return document_layer(Document(plain(value), {}, label, Path.cwd()), "flag", label, parts)
