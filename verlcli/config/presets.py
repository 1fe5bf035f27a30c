"""Presets: configs that ship with the package and are named instead of a path."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from verlcli.config.keys import KeyPath
from verlcli.config.loader import load_document
from verlcli.errors import ConfigError
from verlcli.resources import presets_dir, schema_path

_FILES = (".yaml", ".yml", ".json", ".sh", ".bash", ".slurm", ".sbatch")
EDITOR_HEADER = "yaml-language-server:"


def preset_names() -> tuple[str, ...]:
    """Names of the presets, sorted."""
    return tuple(sorted(path.stem for path in presets_dir().glob("*.yaml")))


def preset_path(name: str) -> Path:
    """File of the preset `name`.

    Raises:
        ConfigError: there is no such preset.
    """
    names = preset_names()
    if name not in names:
        close = get_close_matches(name, names, n=1)
        meant = f"did you mean '{close[0]}'? " if close else ""
        file = f"; for the file write ./{name}" if os.path.isfile(name) else ""
        raise ConfigError(f"no preset '{name}'", fix=f"{meant}presets: {', '.join(names)}{file}")
    return presets_dir() / f"{name}.yaml"


def is_preset_name(source: str) -> bool:
    """Whether `source` is meant as a preset's name: no suffix of a config or a script, and no path separator."""
    separators = [os.sep, os.altsep or os.sep]
    return not source.endswith(_FILES) and not any(part in source for part in ["/", *separators])


def describe(path: Path) -> str:
    """First comment of a config file that is not the editor's schema line; empty without one."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.lstrip("# ").strip()
        if line.startswith("#") and text and not text.startswith(EDITOR_HEADER):
            return text
        if line and not line.startswith("#"):
            break
    return ""


def is_base(name: str) -> bool:
    """Whether a preset only makes sense with something on top of it; its description then starts with `Base:`.

    Raises:
        ConfigError: there is no such preset.
    """
    return describe(preset_path(name)).startswith("Base:")


def copy_preset(name: str, destination: Path) -> Path:
    """Write the preset to `destination` (a file, or a folder to put NAME.yaml in) and return the file.

    Its editor header and its paths to files that ship beside the presets are made absolute; all else stays as it is.

    Raises:
        ConfigError: no such preset, the file exists, or cannot be written.
    """
    source = preset_path(name)
    target = destination / source.name if destination.is_dir() else destination
    try:
        with target.open("x", encoding="utf-8") as stream:
            stream.write(_rebased(source))
    except FileExistsError:
        raise ConfigError("the file exists", where=str(target), fix="choose another name, or remove it") from None
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise ConfigError(message, where=str(target), fix="choose another path") from None
    return target


def _rebased(source: Path) -> str:
    header = f"{EDITOR_HEADER} $schema="
    text = source.read_text(encoding="utf-8").replace(f"{header}../schemas", f"{header}{schema_path('config').parent}")
    lines = text.splitlines(keepends=True)
    document = load_document(source)
    for path, mark in document.marks.items():
        value = _value_at(document.values, path)
        if isinstance(value, str) and value.startswith("./") and (source.parent / value).exists():
            line, start = lines[mark.line - 1], mark.column - 1
            lines[mark.line - 1] = line[:start] + line[start:].replace(value, str((source.parent / value).resolve()), 1)
    return "".join(lines)


def _value_at(values: Any, path: KeyPath) -> Any:
    for key in path:
        values = values[key]
    return values
