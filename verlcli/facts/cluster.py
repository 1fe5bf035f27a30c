"""What a run may use, in one line: `8xA100-80G,nodes=4,cpus=64,ram=512G`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from verlcli.errors import ConfigError
from verlcli.facts.gpus import GpuModel, find_gpu

_EXAMPLE = "8xA100-80G,nodes=4,cpus=64,ram=512G"
_KEYS = ("nodes", "cpus", "ram", "disk")
_NO_GPU = frozenset({"none", "cpu"})
_GPUS = re.compile(r"(?:(\d{1,6})\s*[x×*]\s*)?(?:(\d{1,6})\s*[x×*]\s*)?(\S.*)", re.IGNORECASE)
# Not the x of `RTX 4090`.
_COUNT_LAST = re.compile(r"(\S.*?)\s*(?<!rt)[x×*]\s*(\d{1,6})", re.IGNORECASE)
_COUNT = re.compile(r"0*[1-9][0-9]{0,5}")
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([GT])(?:i?B)?", re.IGNORECASE)
_GIB = {"G": 1.0, "T": 1024.0}


@dataclass(frozen=True, slots=True)
class Cluster:
    """Equal nodes. Numbers are for one node; None is not known. Without a GPU, `gpu` is None and there are 0 of it."""

    gpus_per_node: int
    gpu: GpuModel | None
    nodes: int = 1
    cpus: int | None = None
    ram_gib: float | None = None
    disk_gib: float | None = None

    @property
    def total_gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    def __str__(self) -> str:
        """The spelling that `parse_cluster` reads back to an equal cluster."""
        pieces = [f"{self.gpus_per_node}x{self.gpu.name}" if self.gpu else "none"]
        pieces += [f"nodes={self.nodes}"] if self.nodes > 1 else []
        pieces += [f"cpus={self.cpus}"] if self.cpus is not None else []
        pieces += [f"ram={_size_text(self.ram_gib)}"] if self.ram_gib is not None else []
        pieces += [f"disk={_size_text(self.disk_gib)}"] if self.disk_gib is not None else []
        return ",".join(pieces)


def parse_cluster(text: str) -> Cluster:
    """Cluster from `[NODESx][COUNTx]GPU[,nodes=N][,cpus=N][,ram=SIZE][,disk=SIZE]`; `none` or `cpu` is no GPU.

    Spaces and case do not matter; one number before the GPU is the count per node, none means 1. Sizes end in G or T
    (powers of 1024: 512G is 512 GiB).

    Raises:
        ConfigError: a piece that is not understood, twice given, or not positive; a GPU that is not known.
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    named = [piece for piece in pieces if "=" not in piece]
    if len(named) != 1:
        said = f"two GPU pieces, '{named[0]}' and '{named[1]}'" if named else f"no GPU in '{text.strip()}'"
        raise ConfigError(said, fix=f"write one, such as {_EXAMPLE}; none for no GPU")
    nodes, count, gpu = _gpus(named[0])
    values = _values(piece for piece in pieces if "=" in piece) if len(pieces) > 1 else {}
    if nodes is not None and "nodes" in values:
        raise ConfigError(f"'{named[0]}' and 'nodes={values['nodes']}' both give nodes", fix="write one of them")
    return Cluster(
        gpus_per_node=count,
        gpu=gpu,
        nodes=nodes or _count("nodes", values.get("nodes", "1")),
        cpus=_count("cpus", values["cpus"]) if "cpus" in values else None,
        ram_gib=_size("ram", values["ram"]) if "ram" in values else None,
        disk_gib=_size("disk", values["disk"]) if "disk" in values else None,
    )


def _gpus(piece: str) -> tuple[int | None, int, GpuModel | None]:
    """Nodes if the piece gives them, GPUs per node, and the GPU."""
    match = _GPUS.fullmatch(piece)
    first, second, name = match.groups() if match else (None, None, piece)
    if any(number is not None and int(number) == 0 for number in (first, second)):
        raise ConfigError(f"'{piece}' has a 0", fix="write none for no GPU")
    if name.casefold() in _NO_GPU:
        if first is not None:
            raise ConfigError(
                f"'{piece}' counts no GPU", fix=f"write {name.casefold()}, with nodes=N for several nodes"
            )
        return None, 0, None
    turned = _COUNT_LAST.fullmatch(name)
    if turned:
        raise ConfigError(f"'{piece}' has its count last", fix=f"write {turned[2]}x{turned[1]}")
    gpu = find_gpu(name)
    return (int(first), int(second), gpu) if first and second else (None, int(first or 1), gpu)


def _values(pieces: Iterable[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for piece in pieces:
        key, _, value = (part.strip() for part in piece.partition("="))
        key = key.casefold()
        if key not in _KEYS:
            close = get_close_matches(key, _KEYS, n=1)
            meant = f"did you mean {close[0]}? " if close else ""
            raise ConfigError(f"'{piece}': unknown key '{key}'", fix=f"{meant}keys: {', '.join(_KEYS)}")
        if key in values:
            raise ConfigError(f"{key} is given twice", fix="write it once")
        values[key] = value
    return values


def _count(key: str, text: str) -> int:
    if not _COUNT.fullmatch(text):
        raise ConfigError(f"{key}={text} is not a whole number from 1 to 999999", fix=f"write {key}=4, for example")
    return int(text)


def _size(key: str, text: str) -> float:
    match = _SIZE.fullmatch(text)
    gib = round(float(match[1]) * _GIB[match[2].upper()], 3) if match else 0.0
    if gib <= 0:
        raise ConfigError(f"{key}={text} is not a size", fix=f"write a number and G or T, such as {key}=512G")
    return gib


def _size_text(gib: float) -> str:
    return f"{int(gib)}G" if gib == int(gib) else f"{gib!r}G"
