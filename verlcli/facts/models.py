"""A model's path or hub id -> its shape, from files of this machine or the shipped table; never from the network."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from verlcli.errors import ConfigError
from verlcli.facts.model_config import shape_from_config
from verlcli.facts.shapes import ModelShape

_TABLE = Path(__file__).with_name("model_table.json")
_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def model_shape(path: str) -> ModelShape | None:
    """Shape of the model that `model.path` names; None when nothing here knows it.

    Looked up in this order: a folder with `config.json`; a hub id in the Hugging Face cache; the table of known models,
    by full id and then by the last part of the path (`$HOME/models/Qwen2.5-7B-Instruct` on another machine). A folder
    that is here but has no readable `config.json` is not looked up by its name.
    """
    name = path.strip()
    folder = os.path.expandvars(os.path.expanduser(name))
    if os.path.isdir(folder):
        return _read(Path(folder, "config.json"), f"config.json of {folder}")
    return _cached(name) or _tabled(name)


def known_models() -> tuple[str, ...]:
    """Hub ids of the table, sorted without regard to case."""
    return tuple(sorted((name for entry in _table() for name in entry["ids"]), key=str.casefold))


def _read(file: Path, source: str) -> ModelShape | None:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        return shape_from_config(config, source) if isinstance(config, Mapping) else None
    except (OSError, ValueError, TypeError, ArithmeticError, RecursionError, ConfigError):
        return None


def _cached(name: str) -> ModelShape | None:
    folder = cached_snapshot(name)
    return _read(Path(folder) / "config.json", "hub cache") if folder else None


def cached_snapshot(name: str) -> str | None:
    """Folder of a hub id in the local cache: `models--ORG--NAME/snapshots/REVISION`, `refs/main` holds the revision."""
    if not _HUB_ID.fullmatch(name):
        return None
    repository = _hub_cache() / f"models--{name.replace('/', '--')}"
    try:
        revision = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    folder = repository / "snapshots" / revision
    return str(folder) if revision and folder.is_dir() else None


def _hub_cache() -> Path:
    """Folder of the hub's downloads, by huggingface_hub's rules (its `constants.py`)."""
    direct = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if direct:
        return Path(os.path.expandvars(os.path.expanduser(direct)))
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = os.environ.get("HF_HOME") or os.path.join(caches, "huggingface")
    return Path(os.path.expandvars(os.path.expanduser(home))) / "hub"


@cache
def _table() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(_TABLE.read_text(encoding="utf-8")))


@cache
def _by_name() -> dict[str, tuple[str, dict[str, Any]]]:
    """Lower-case full ids and last parts -> the id and its config; a full id wins over another's last part."""
    entries = [(name, entry["config"]) for entry in _table() for name in entry["ids"]]
    last = {name.rpartition("/")[2].casefold(): (name, config) for name, config in entries}
    return {**last, **{name.casefold(): (name, config) for name, config in entries}}


def _tabled(path: str) -> ModelShape | None:
    for name in _names(path):
        found = _by_name().get(name)
        if found:
            known, config = found
            alias = "" if path.casefold() == known.casefold() else f", as {known}"
            return shape_from_config(config, f"verlcli's table of known models{alias}")
    return None


def _names(path: str) -> tuple[str, ...]:
    """The id itself, the id inside a cache's folder name, and the last part of a path."""
    # ModelScope's cache writes dots of a name as three underscores.
    parts = [part.replace("___", ".") for part in path.casefold().replace("\\", "/").split("/") if part]
    caches = [part.removeprefix("models--").replace("--", "/") for part in parts if part.startswith("models--")]
    return ("/".join(parts), *caches, *parts[-1:])
