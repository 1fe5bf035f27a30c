"""Sources, environment, overrides and flags -> Resolved: one complete tree of values, each with its history.

Precedence, lowest first: schema default, preset chain, files left to right, environment, `-o`, a command's own flags.
Maps merge, lists replace, `~KEY` goes back to the default.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verlcli.config.derive import BATCH, batch_history, set_by_algorithm, with_batch_size
from verlcli.config.keys import KeyPath, plain
from verlcli.config.layers import Kind, Layer, Origin, document_layer
from verlcli.config.loader import Document, load_document
from verlcli.config.merge import merge_layers
from verlcli.config.overrides import environment_layers, flag_layers, override_layers
from verlcli.config.presets import is_preset_name, preset_path
from verlcli.config.problems import Problem
from verlcli.config.prompts import later_prompts_win
from verlcli.errors import ConfigError
from verlcli.resources import presets_dir

ConfigSource = str | os.PathLike[str] | Mapping[str, Any]  # preset name or path, path, or the keys themselves
_MOST_FILES = 64  # of one config with all that it extends


@dataclass(frozen=True, slots=True)
class Resolved:
    """All layers merged.

    Attributes:
        name: of the run: stem of the last source.
        values: a complete config (every key of the schema), unchecked.
        origins: history of every leaf, lowest layer first; the last one holds.
        places: origin of every node that stands somewhere (sections, keys, list items).
        problems: what was found on the way (duplicate keys, overrides that fit nowhere).
    """

    name: str
    values: dict[str, Any]
    origins: dict[KeyPath, tuple[Origin, ...]]
    places: dict[KeyPath, Origin]
    problems: tuple[Problem, ...]


def resolve(
    sources: Sequence[ConfigSource],
    overrides: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Resolved:
    """Read `sources` (preset names or files) and everything above them; `env` None is the process's environment.

    Raises:
        ConfigError: a source cannot be read, an unknown preset, a cycle of `extends`, a malformed override.
    """
    reader = _Reader()
    ranks = [[layer] for source in sources for layer in reader.read_source(source)]
    ranks.append(environment_layers(os.environ if env is None else env))
    ranks.append(override_layers(overrides))
    ranks.append(flag_layers(flags or {}))
    merged = merge_layers(later_prompts_win(ranks))
    values = dict(with_batch_size(merged.values))
    if values["data"] is not merged.values["data"]:
        merged.origins[BATCH] = batch_history(merged.origins.get(BATCH, ()), values["data"][BATCH[-1]])
    for key, origin in set_by_algorithm(values, merged.origins).items():
        values["algorithm"][key] = origin.value
        merged.origins[("algorithm", key)] = (*merged.origins.get(("algorithm", key), ()), origin)
    problems = (*reader.problems, *merged.problems)
    return Resolved(_name(sources), values, merged.origins, merged.places, problems)


def _name(sources: Sequence[ConfigSource]) -> str:
    last = sources[-1] if sources else {}
    return "run" if isinstance(last, Mapping) else _locate(last).path.stem


@dataclass(frozen=True, slots=True)
class _Source:
    path: Path
    shown: str

    @property
    def kind(self) -> Kind:
        return "preset" if self.path.parent == presets_dir() else "file"


def _locate(source: str | os.PathLike[str], base: Path | None = None) -> _Source:
    if isinstance(source, str) and is_preset_name(source):
        path = preset_path(source)
        return _Source(path, _shown(path))
    path = (base or Path.cwd()) / os.path.expanduser(source)
    return _Source(Path(os.path.normpath(path)), _shown(path) if base else os.fspath(source))


def _shown(path: Path) -> str:
    """Relative to the working directory when below it: short, and what CI annotations need."""
    path = Path(os.path.normpath(path))
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


@dataclass(slots=True)
class _Reader:
    """Reads a source and all that it extends, bases first."""

    problems: list[Problem] = field(default_factory=list)
    files: int = 0

    def read_source(self, source: ConfigSource) -> Iterator[Layer]:
        if isinstance(source, Mapping):
            document = Document(plain(source), {}, "the config mapping", Path.cwd())
            yield from self._layers(document, "file", document.file, ())
        else:
            yield from self.read(_locate(source))

    def read(self, source: _Source, chain: tuple[_Source, ...] = ()) -> Iterator[Layer]:
        if source.path in [link.path for link in chain]:
            names = [link.shown for link in (*chain, source)]
            raise ConfigError(f"extends runs in a circle: {' -> '.join(names)}", fix="remove one `extends`")
        self.files += 1
        if self.files > _MOST_FILES:
            raise ConfigError(f"extends leads to more than {_MOST_FILES} files", fix="flatten the chain")
        document = load_document(source.path, name=source.shown)
        self.problems.extend(document.problems)
        yield from self._layers(document, source.kind, None, (*chain, source))

    def _layers(self, document: Document, kind: Kind, label: str | None, chain: tuple[_Source, ...]) -> Iterator[Layer]:
        for base in _bases(document):
            yield from self.read(base, chain)
        document.values.pop("extends", None)
        yield document_layer(document, kind, label)


def _bases(document: Document) -> list[_Source]:
    names = document.values.get("extends")
    bases = names if isinstance(names, list) else [] if names is None else [names]
    return [_base(document, name, index if bases is names else None) for index, name in enumerate(bases)]


def _base(document: Document, name: Any, index: int | None) -> _Source:
    mark = document.marks.get(("extends",) if index is None else ("extends", index))
    where = f"{document.file}:{mark.line}:{mark.column}" if mark else document.file
    if not isinstance(name, str) or not name:
        raise ConfigError("extends takes a preset's name or a path", where=where, fix="write extends: quickstart")
    try:
        source = _locate(name, document.root)
        if not os.path.exists(source.path):
            raise ConfigError(f"extends '{name}': no such file {source.shown}", where=where, fix="correct the path")
    except ConfigError as error:
        raise ConfigError(error.message, where=where, fix=error.fix) from None
    return source
