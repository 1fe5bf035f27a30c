"""Resolve the `${...}` in a value the way OmegaConf does, without OmegaConf."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import yaml


class Unresolved:
    """Type of `UNRESOLVED`; false, and equal to itself alone."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNRESOLVED"


UNRESOLVED: Final = Unresolved()
Get = Callable[[str], Any]  # value of a key, interpolations resolved; UNRESOLVED where there is no such key


def resolve(value: Any, key: str, get: Get, env: Mapping[str, str] | None = None) -> Any:
    """`value` of `key` with its interpolations resolved; UNRESOLVED when one of them cannot be.

    Knows `${a.b}`, `${.sibling}`, `${..of_parent}`, `${oc.select:a.b,default}`, `${oc.env:NAME,default}`, any of them
    nested or within a longer string, as OmegaConf 2.3 does. A mandatory value (`???`) is UNRESOLVED.

    Args:
        value: as written in the tree or the override.
        key: where it stands, for relative names.
        get: looks up another key.
        env: environment for `oc.env`; the process's own if None.
    """
    if isinstance(value, list):
        items = [resolve(item, key, get, env) for item in value]
        return UNRESOLVED if UNRESOLVED in items else items
    if not isinstance(value, str):
        return value
    if value == "???":
        return UNRESOLVED
    return _text(value, key, get, os.environ if env is None else env)


def _text(text: str, key: str, get: Get, env: Mapping[str, str]) -> Any:
    parts: list[Any] = []
    while "${" in text:
        before, _, rest = text.partition("${")
        end = _closing(rest)
        if end is None:
            return UNRESOLVED
        parts += [before] if before else []
        parts.append(_one(rest[:end], key, get, env))
        text = rest[end + 1 :]
    parts += [text] if text or not parts else []
    if any(part is UNRESOLVED for part in parts):
        return UNRESOLVED
    return parts[0] if len(parts) == 1 else "".join(map(str, parts))


def _closing(text: str) -> int | None:
    """Where the brace that is open at the start of `text` closes."""
    depth = 1
    for index, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0:
            return index
    return None


def _one(inside: str, key: str, get: Get, env: Mapping[str, str]) -> Any:
    """Value of one `${inside}`."""
    name, colon, arguments = inside.partition(":")
    if not colon:
        return get(absolute(inside.strip(), key))
    first, comma, default = arguments.partition(",")
    if name == "oc.select":
        found = get(absolute(first.strip(), key))
    elif name == "oc.env":
        found = env.get(first.strip(), UNRESOLVED)
    else:
        return UNRESOLVED  # a resolver that some code registers at run time
    if found is not UNRESOLVED:
        return found
    if comma:
        return _default(default.strip(), key, get, env)
    return None if name == "oc.select" else UNRESOLVED


def _default(text: str, key: str, get: Get, env: Mapping[str, str]) -> Any:
    if "${" in text:
        return _text(text, key, get, env)
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def absolute(name: str, key: str) -> str:
    """Full name of what `${name}` means inside `key`: each leading dot goes up one section."""
    bare = name.lstrip(".")
    up = len(name) - len(bare)
    if up == 0:
        return bare
    section = key.split(".")[:-up]
    return ".".join([*section, bare])
