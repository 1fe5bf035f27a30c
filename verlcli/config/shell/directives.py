"""`#SBATCH` lines -> the options of the job."""

from __future__ import annotations

import re

from verlcli.config.shell.types import Piece, Place, Word

_LINE = re.compile(r"^#SBATCH[ \t]+([^\n]*)$", re.MULTILINE)
_PART = re.compile(r"\S+")
_LONG = {
    "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "p": "partition", "t": "time", "J": "job-name", "o": "output",
    "e": "error", "G": "gpus", "A": "account", "q": "qos", "w": "nodelist", "x": "exclude", "C": "constraint",
    "a": "array", "d": "dependency", "D": "chdir", "H": "hold",
}  # fmt: skip


def read_directives(text: str) -> dict[str, Word]:
    """Long name of each option -> its value, empty for a flag. Slurm stops reading at the first command."""
    found: dict[str, Word] = {}
    for match in _LINE.finditer(text, 0, _first_command(text)):
        line = text.count("\n", 0, match.start()) + 1
        _read_line(match[1].partition(" #")[0].rstrip("\r"), line, match.start(1) - match.start() + 1, found)
    return found


def _first_command(text: str) -> int:
    match = re.search(r"^[ \t]*[^#\s]", text, re.MULTILINE)
    return match.start() if match else len(text)


def _read_line(line: str, number: int, column: int, found: dict[str, Word]) -> None:
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
        place = Place(number, column + start)
        found[name] = Word(place, (Piece(value.strip("\"'"), place),) if value else ())


def _option(text: str) -> tuple[str, str, int]:
    """Long name, value and offset of the value of one word; no name for what is no option."""
    if text.startswith("--"):
        name, _, value = text[2:].partition("=")
        return name, value, len(name) + 3 if value else 0
    if text.startswith("-") and text[1:2] in _LONG:
        value = text[2:].removeprefix("=")
        return _LONG[text[1]], value, len(text) - len(value)
    return "", "", 0
