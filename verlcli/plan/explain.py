"""The layers that a value came through, for `verl plan --explain KEY`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from verlcli.config.layers import Origin
from verlcli.errors import ConfigError

SCHEMA_VERSION = 1
Layers = dict[str, tuple[Origin, ...]]


def explain_key(origins: Mapping[str, Sequence[Origin]], key: str) -> Layers:
    """The layers of `key`, or of every key under it, lowest first.

    Raises:
        ConfigError: there is no such key.
    """
    found = {name: tuple(origins[name]) for name in sorted(origins) if name == key or name.startswith(f"{key}.")}
    if found:
        return found
    from verlcli.config.wording import better_key

    advice = better_key(tuple(key.split(".")))
    raise ConfigError(f"no key {key!r}", where="--explain", fix=advice or "see the keys with `verl schema config`")


def explain_report(found: Layers) -> str:
    """`KEY = VALUE` with its layers under it; the last one holds."""
    return "\n".join(line for key, layers in found.items() for line in _lines(key, layers))


def explain_document(key: str, found: Layers) -> dict[str, Any]:
    """The same with the keys of `schemas/plan-explain.schema.json`."""
    keys = [
        {
            "key": name,
            "value": layers[-1].value,
            "layers": [{"kind": layer.kind, "origin": layer.label, "value": layer.value} for layer in layers],
        }
        for name, layers in found.items()
    ]
    return {"schema_version": SCHEMA_VERSION, "asked": key, "keys": keys}


def _lines(key: str, layers: tuple[Origin, ...]) -> list[str]:
    from verlcli.config.wording import shown

    width = max(len(layer.label) for layer in layers)
    rows = [f"  {layer.label:<{width}}  {shown(layer.value)}" for layer in layers]
    if len(rows) > 1:
        rows[-1] += "  <- holds"
    return [f"{key} = {shown(layers[-1].value)}", *rows]
