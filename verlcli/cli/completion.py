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


def complete_version(incomplete: str) -> list[str]:
    """Versions of verl whose keys are known."""
    from verlcli.facts.verl import VERSIONS

    return [version for version in VERSIONS if version.startswith(incomplete)]


def complete_cluster(incomplete: str) -> list[str]:
    """GPUs by name, with the count that was typed before them."""
    from verlcli.facts import GPUS

    count, cross, typed = incomplete.rpartition("x")
    return [f"{count}{cross}{gpu.name}" for gpu in GPUS if gpu.name.lower().startswith(typed.lower())]


def complete_topic(incomplete: str) -> list[str]:
    """Codes and dotted keys."""
    from verlcli.config.codes import all_codes

    keys = [key.removesuffix("=") for key in complete_override(incomplete)] if incomplete else []
    return [code for code in all_codes() if code.startswith(incomplete.upper())] + keys


def _keys(schema: dict[str, Any], at: str = "") -> Iterator[str]:
    for name, part in schema.get("properties", {}).items():
        key = f"{at}{name}"
        if "properties" in part:
            yield from _keys(part, f"{key}.")
        else:
            yield key
