"""Every error a user can meet, with its exit code and what to do about it.

VerlCliError                    1   ran, and the answer is no
├── ConfigError                 2   unreadable or invalid input; may carry all problems at once
├── DoesNotFitError             3   batch, devices or memory do not work out
├── MissingDependencyError      4   a package, device or backend is absent; the fix is its install line
├── TrainingFailedError         1   training started and could not go on
└── InterruptedRunError       130   stopped by Ctrl-C or SIGTERM; the checkpoint is written
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verlcli.config.problems import Problem

_MOST_PROBLEMS = 20  # listed in one exception's text


class VerlCliError(Exception):
    """One clear message: what happened, where, and what to write instead.

    Args:
        message: what is wrong, in one sentence, naming the value.
        where: `file:line:column`, a path, or a config key; printed before the message.
        fix: what the user can do, in the imperative.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.fix = fix

    @property
    def summary(self) -> str:
        """Place, message and fix."""
        return self._text(())

    def __str__(self) -> str:
        return self.summary

    def _text(self, details: Sequence[str]) -> str:
        head = f"{self.where}: {self.message}" if self.where else self.message
        return "\n  ".join([head, *details, *([f"fix: {self.fix}"] if self.fix else [])])


class ConfigError(VerlCliError):
    """Unreadable or invalid input (exit 2)."""

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        fix: str | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """The summary with a line for each problem, for those who call this from Python."""
        lines = [str(problem) for problem in self.problems[:_MOST_PROBLEMS]]
        more = len(self.problems) - len(lines)
        return self._text([*lines, f"... and {more} more"] if more else lines)


class DoesNotFitError(VerlCliError):
    """Batch arithmetic, device counts or memory do not work out (exit 3)."""

    exit_code = 3


class MissingDependencyError(VerlCliError):
    """A package, device or backend is absent (exit 4); `fix` holds the install line."""

    exit_code = 4


class TrainingFailedError(VerlCliError):
    """Training started and could not go on (exit 1)."""


class InterruptedRunError(VerlCliError):
    """Stopped by a signal after the step's checkpoint was written (exit 130)."""

    exit_code = 130
