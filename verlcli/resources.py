"""Where the files that ship with the package are: `schemas/` and `presets/`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from verlcli.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    # A wheel carries the folders inside the package; a checkout has them beside it.
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def presets_dir() -> Path:
    """Absolute folder of the presets."""
    return _folder("presets")


def schema_names() -> tuple[str, ...]:
    """Names that `load_schema` knows, sorted: `config`, `plan`, ..."""
    return tuple(sorted(path.name.removesuffix(".schema.json") for path in _folder("schemas").glob("*.schema.json")))


def schema_path(name: str) -> Path:
    """Absolute path of `NAME.schema.json`; it need not exist."""
    return _folder("schemas") / f"{name}.schema.json"


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Parsed JSON Schema `name`; shared by all callers, so do not change it.

    Raises:
        ConfigError: there is no schema of that name.
    """
    try:
        schema: dict[str, Any] = json.loads(schema_path(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no schema '{name}'", fix=f"choose one of: {', '.join(schema_names())}") from None
    return schema
