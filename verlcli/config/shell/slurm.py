"""What `#SBATCH` lines of a script say, and the variables that Slurm sets because of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Piece, Word
from verlcli.config.shell.world import Var

_LINE = re.compile(r"^#SBATCH[ \t]+([^\n]*)$", re.MULTILINE)
_PART = re.compile(r"\S+")
_LONG = {
    "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "p": "partition", "t": "time", "J": "job-name", "o": "output",
    "e": "error", "G": "gpus", "A": "account", "q": "qos", "w": "nodelist", "x": "exclude", "C": "constraint",
    "a": "array", "d": "dependency", "D": "chdir", "H": "hold",
}  # fmt: skip
_GPUS = re.compile(r"(?:gpu:)?(?:[\w.-]+:)?(\d{1,9})\Z", re.ASCII)
_MEMORY = re.compile(r"(\d{1,9})([KMGT]?)B?\Z", re.ASCII | re.IGNORECASE)
_MEGABYTES = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def read_directives(source: Source) -> dict[str, Word]:
    """Long name of each option -> its value, empty for a flag. Slurm stops reading at the first command."""
    found: dict[str, Word] = {}
    for match in _LINE.finditer(source.text, 0, _first_command(source.text)):
        _read_line(match[1].partition(" #")[0].rstrip("\r"), source, match.start(1), found)
    return found


def _first_command(text: str) -> int:
    match = re.search(r"^[ \t]*[^#\s]", text, re.MULTILINE)
    return match.start() if match else len(text)


def _read_line(line: str, source: Source, at_line: int, found: dict[str, Word]) -> None:
    parts = list(_PART.finditer(line))
    at = 0
    while at < len(parts):
        part, at = parts[at], at + 1
        name, value, offset = _option(part[0])
        if not name:
            continue
        start = part.start() + offset
        if not value and not part[0].endswith("=") and at < len(parts) and not parts[at][0].startswith("-"):
            value, start, at = parts[at][0], parts[at].start(), at + 1
        value_parts = tuple(source.parts(value.strip("\"'"), at_line + start))
        found[name] = Word(source.place(at_line + start), value_parts)


def _option(text: str) -> tuple[str, str, int]:
    """Long name, value and offset of the value of one word; no name for what is no option."""
    if text.startswith("--"):
        name, _, value = text[2:].partition("=")
        return name, value, len(name) + 3 if value else 0
    if text.startswith("-") and text[1:2] in _LONG:
        value = text[2:].removeprefix("=")
        return _LONG[text[1]], value, len(text) - len(value)
    return "", "", 0


def slurm_variables(directives: Mapping[str, Word]) -> dict[str, Var]:
    """Variables that a job started by sbatch gets, as far as its directives tell them, each at its directive's place.

    Source: `man sbatch`, output environment variables. A range such as `--nodes=1-4` tells nothing.
    """
    found: dict[str, Var] = {}
    for name, option, value_of in _VARIABLES:
        word = directives.get(option)
        value = value_of(word.text or "") if word is not None else None
        if word is not None and value:
            found.setdefault(name, Var((Piece(value, word.place),), exported=True))
    return found | _all_tasks(found)


def _all_tasks(found: Mapping[str, Var]) -> dict[str, Var]:
    """Number of the job's tasks, which `--ntasks-per-node` and `--nodes` give as well."""
    parts = [found[name].parts[0] for name in ("SLURM_NTASKS_PER_NODE", "SLURM_NNODES") if name in found]
    numbers = [int(part.text) for part in parts if isinstance(part, Piece)]
    if "SLURM_NTASKS" in found or len(numbers) < 2:
        return {}
    names = ("SLURM_NTASKS", "SLURM_NPROCS")
    return {name: Var((Piece(str(numbers[0] * numbers[1]), parts[0].place),), exported=True) for name in names}


def _count(text: str) -> str | None:
    return text if re.fullmatch(r"\d{1,9}", text, re.ASCII) else None


def _gpus(text: str) -> str | None:
    """`8`, `gpu:8` and `gpu:a100:8`; other resources than GPUs are no number of them."""
    match = _GPUS.match(text)
    return match[1] if match else None


def _gpus_of_gres(text: str) -> str | None:
    items = [item for item in text.split(",") if item.startswith("gpu:")]
    return _gpus(items[0]) if len(items) == 1 else None


def _memory(text: str) -> str | None:
    """Megabytes of `512G`, `100000`; 0, which means all of the node, is left open."""
    match = _MEMORY.match(text)
    return str(int(int(match[1]) * _MEGABYTES[match[2].upper()])) if match and int(match[1]) else None


# Variable, directive, and how its value follows; the first directive that tells a variable holds.
_VARIABLES: tuple[tuple[str, str, Callable[[str], str | None]], ...] = (
    ("SLURM_NNODES", "nodes", _count),
    ("SLURM_JOB_NUM_NODES", "nodes", _count),
    ("SLURM_GPUS_ON_NODE", "gpus-per-node", _gpus),
    ("SLURM_GPUS_ON_NODE", "gres", _gpus_of_gres),
    ("SLURM_GPUS_PER_NODE", "gpus-per-node", str),
    ("SLURM_GPUS_PER_TASK", "gpus-per-task", str),
    ("SLURM_GPUS", "gpus", str),
    ("SLURM_CPUS_PER_TASK", "cpus-per-task", _count),
    ("SLURM_NTASKS", "ntasks", _count),
    ("SLURM_NPROCS", "ntasks", _count),
    ("SLURM_NTASKS_PER_NODE", "ntasks-per-node", _count),
    ("SLURM_MEM_PER_NODE", "mem", _memory),
    ("SLURM_MEM_PER_CPU", "mem-per-cpu", _memory),
    ("SLURM_JOB_NAME", "job-name", str),
)
