"""A config of the user's own that a launch names: its file near the script, and what it builds on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from verlcli.config.shell import Gap, Piece, Word
from verlcli.config.verl.command import HydraLine
from verlcli.config.verl.read_hydra import config_of_file
from verlcli.config.verl.run import Setting
from verlcli.errors import ConfigError

_LEVELS = 6  # folders above the script that may be the one it is started in


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """A config of the user's own.

    Attributes:
        settings: in the order of the file; whatever they name becomes a key.
        bases: configs that it takes in as a whole, verl's own among them.
        groups: config groups that it chooses.
    """

    settings: tuple[Setting, ...]
    bases: tuple[str, ...]
    groups: dict[str, str]


def own_config(script: str, line: HydraLine, module: str) -> OwnConfig | None:
    """The config that a launch names; None when its file is not near the script, or cannot be read."""
    for folder in config_folders(script, line, module):
        try:
            settings, chosen = config_of_file(folder / f"{_name(line)}.yaml")
        except ConfigError:
            continue
        added = tuple(replace(setting, prefix="++") for setting in settings)
        bases = tuple(name for name, choice in chosen.items() if choice is None and name != "_self_")
        return OwnConfig(added, bases, {name: choice for name, choice in chosen.items() if choice})
    return None


def config_folders(script: str, line: HydraLine, module: str) -> Iterator[Path]:
    """Folders in which Hydra may look for the config, as far as they exist: those named, or else the program's own.

    A script is written to be started in one of the folders above it, most often the top of a repository.
    """
    beside = Path(script).resolve().parent
    starts = (beside, *list(beside.parents)[:_LEVELS])
    named = [word for word in (line.config_path, line.config_dir) if word is not None]
    texts = [_path_in(word) for word in named] or [f"{module.rpartition('.')[0].replace('.', '/')}/config"]
    for text in filter(None, texts):
        yield from (folder for start in starts if (folder := start / text).is_dir())


def _name(line: HydraLine) -> str:
    return ((line.config_name.text if line.config_name else None) or "").removesuffix(".yaml")


def _path_in(word: Word) -> str:
    """A path as written; without its start where that is known at run time only: `$PWD/examples/config`."""
    parts = word.parts[1:] if word.parts and isinstance(word.parts[0], Gap) else word.parts
    known = [part.text for part in parts if isinstance(part, Piece)]
    if len(known) < len(parts):
        return ""
    text = "".join(known)
    return text.lstrip("/") if len(parts) < len(word.parts) else text
