"""Backends by name; each is one file beside `_base.py`."""

from __future__ import annotations

from verlcli.backends._base import Backend
from verlcli.backends.local import LocalBackend
from verlcli.errors import MissingDependencyError

BACKENDS: dict[str, type[Backend]] = {"local": LocalBackend}

__all__ = ["BACKENDS", "Backend", "get_backend"]


def get_backend(name: str) -> Backend:
    """The backend of that name.

    Raises:
        MissingDependencyError: this release does not have it.
    """
    if name not in BACKENDS:
        raise MissingDependencyError(
            f"this release plans for the backend {name!r} but cannot start it; it starts: {', '.join(BACKENDS)}",
            where="backend",
            fix="use --backend local on one device, or --dry-run to see the plan",
        )
    return BACKENDS[name]()
