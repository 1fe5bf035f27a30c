"""Shell completion of preset names and dotted keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def complete_config(incomplete: str) -> list[str]:
    """Presets that start like what was typed; files are completed by the shell."""
    from verlcli.resources import presets_dir

    names = sorted(path.stem for path in presets_dir().glob("*.yaml"))
    return [name for name in names if name.startswith(incomplete)]


def complete_override(incomplete: str) -> list[str]:
    """Dotted keys of the schema, with `=` on the leaves."""
    from verlcli.resources import load_schema

    prefix = "~" if incomplete.startswith("~") else ""
    typed = incomplete.removeprefix("~")
    end = "" if prefix else "="
    return [f"{prefix}{key}{end}" for key in _keys(load_schema("config")) if key.startswith(typed)]


def _keys(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        key = f"{at}{name}"
        if "properties" in part:
            yield from _keys(part, f"{key}.")
        else:
            yield key
