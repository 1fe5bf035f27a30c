"""Errors that Hydra does not judge, each decided by reading verl's source at that ref: would the run die, or ignore?

Only decisions that the error is right stand here; every other error on a script that Hydra accepts counts as false.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Decision:
    """One error that is true.

    Attributes:
        code: of the problem.
        script: pattern of the script's path.
        reason: why it is true, with verl's file.
        refs: `ref:version` patterns for which it was read.
    """

    code: str
    script: str
    reason: str
    refs: str = "*"


DECISIONS: tuple[Decision, ...] = ()


def decided(code: str, script: str, pair: str) -> Decision | None:
    """The decision about a problem of a script at `ref:version`; None: nobody has shown that it is true."""
    found = (each for each in DECISIONS if each.code == code and fnmatch(script, each.script))
    return next((each for each in found if fnmatch(pair, each.refs)), None)
