"""`Backend`: what carries a plan out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from verlcli.config import Loaded
    from verlcli.plan import Machine, Plan


class Backend(Protocol):
    """One way to carry out a plan."""

    name: str

    def check(self, plan: Plan, machine: Machine) -> None:
        """Refuse, before anything is loaded, what cannot run here.

        Raises:
            DoesNotFitError: more ranks or devices than there are.
            MissingDependencyError: a package or device is absent.
        """
        ...

    def run(self, loaded: Loaded, *, argv: Sequence[str], observer: Any) -> dict[str, Any]:
        """Train to the end; returns the document of `schemas/train.schema.json`."""
        ...
