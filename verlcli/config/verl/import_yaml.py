"""An imported launch -> YAML text, with the shell variables that values came through beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from verlcli.config.dump import to_yaml
from verlcli.config.keys import KeyPath
from verlcli.config.loader import load_text
from verlcli.config.verl.importer import Imported
from verlcli.config.verl.mapping import BASE
from verlcli.resources import schema_path

_FILES = ("data.train_files", "data.val_files", "reward.function", "model.path")


def config_text(imported: Imported, comments: Sequence[str], folder: Path) -> str:
    """The config as text for a file in `folder`, which relative paths are rewritten for.

    Args:
        comments: lines of the header, without `#`.
    """
    ours = {key: _moved(key, value, folder) for key, value in imported.ours.items()}
    sections = _nested(ours)
    if imported.kept:
        sections["verl"] = _nested(imported.kept)
    header = [f"# yaml-language-server: $schema={schema_path('config')}", *(f"# {line}" for line in comments)]
    body = {"extends": BASE, "backend": "verl"}
    parts = [to_yaml(body), *(to_yaml({name: section}) for name, section in sections.items())]
    return "\n".join(["\n".join(header), *(_annotated(part, imported.variables) for part in parts)])


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as sections; groups, keys to remove and those that are sections of others too keep their dots."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        whole = key.startswith("~") or "@" in key or "/" in key or _is_section(key, flat)
        *sections, name = [key] if whole else key.split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return nested


def _is_section(key: str, flat: Mapping[str, Any]) -> bool:
    return any(other.startswith(f"{key}.") for other in flat)


def _annotated(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `# $NAME` behind the values that came through a shell variable, where a line has room for it."""
    lines = text.splitlines()
    document = load_text(text, "import")
    for path, mark in document.marks.items():
        name = variables.get(_key(path))
        if name and mark.line:
            lines[mark.key_line - 1] += f"  # ${name}"
    annotated = "\n".join(lines) + "\n"
    # A long text may go on in the next line, where a comment would cut it.
    return annotated if _reads(annotated) == document.values else text


def _reads(text: str) -> Any:
    from verlcli.errors import ConfigError

    try:
        return load_text(text, "import").values
    except ConfigError:
        return None


def _key(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _moved(key: str, value: Any, folder: Path) -> Any:
    """A relative path as seen from `folder`: the launch's paths start where it is started, here."""
    if isinstance(value, list):
        return [_moved(key, item, folder) for item in value]
    if key not in _FILES or not isinstance(value, str) or value.startswith(("~", "pkg:")) or "://" in value:
        return value
    if os.path.isabs(value) or folder == Path.cwd() or (key == "model.path" and not os.path.exists(value)):
        return value
    return os.path.relpath(value, folder)
