"""Reading bash launch scripts without running them: each python launch's argv, word by word, with its places."""

from __future__ import annotations

from verlcli.config.shell.read import read_script
from verlcli.config.shell.types import (
    Command,
    Gap,
    GapKind,
    Launch,
    Piece,
    Place,
    Script,
    Severity,
    ShellFinding,
    Word,
)

__all__ = [
    "Command",
    "Gap",
    "GapKind",
    "Launch",
    "Piece",
    "Place",
    "Script",
    "Severity",
    "ShellFinding",
    "Word",
    "read_script",
]
