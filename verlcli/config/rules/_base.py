"""What a cross-key rule is: a function of the typed config that yields verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from verlcli.config.context import Context
from verlcli.config.problems import Fix, Place, Severity
from verlcli.config.types import Config


@dataclass(frozen=True, slots=True)
class Verdict:
    """One conflict; `keys` are the dotted keys in it, the one to change first.

    `fix` mends it mechanically; its place is filled in by the checker.

    `place` is where it stands when that is no key, such as a command of a launch script.

    With `of_presets` False a value that a preset wrote is no cause: it stands for what the user brings.
    """

    code: str
    keys: tuple[str, ...]
    message: str
    suggestion: str | None = None
    severity: Severity = "error"
    of_presets: bool = True
    fix: Fix | None = None
    place: Place | None = None


Rule = Callable[[Config], Iterator[Verdict]]
ContextRule = Callable[[Config, Context], Iterator[Verdict]]
