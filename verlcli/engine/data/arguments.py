"""Reads and checks `data.source_args`, the arguments of a generator of rows."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from verlcli.errors import ConfigError


class Arguments:
    """Given arguments over their defaults; every message names `data.source_args.KEY` and what to write.

    Raises:
        ConfigError: an argument that has no default is given, unless `open_ended`.
    """

    def __init__(
        self, source: str, given: Mapping[str, Any], defaults: Mapping[str, Any], *, open_ended: bool = False
    ) -> None:
        self._values = {**defaults, **given}
        self.rest = {key: value for key, value in given.items() if key not in defaults}
        if self.rest and not open_ended:
            name = next(iter(self.rest))
            close = get_close_matches(name, defaults, n=1)
            raise ConfigError(
                f"unknown argument of the source {source!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
                where=f"data.source_args.{name}",
                fix=f"use one of {', '.join(defaults)}",
            )

    def wrong(self, key: str, wanted: str) -> ConfigError:
        """The error that says `key` must be `wanted`."""
        return ConfigError(
            f"is {self._values[key]!r}, wanted {wanted}", where=f"data.source_args.{key}", fix=f"write {wanted}"
        )

    def integer(self, key: str, *, least: int, most: int | None = None) -> int:
        """A whole number from `least` to `most`."""
        value = self._values[key]
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            raise self.wrong(key, f"a whole number from {least}" + (f" to {most}" if most is not None else " up"))
        return int(value)

    def boolean(self, key: str) -> bool:
        """true or false."""
        value = self._values[key]
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def text(self, key: str) -> str:
        """Text that is not empty."""
        value = self._values[key]
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, or one text."""
        value = self._values[key]
        values = (value,) if isinstance(value, str) else value
        if not isinstance(values, (list, tuple)) or not values or not all(isinstance(v, str) and v for v in values):
            raise self.wrong(key, "a list of texts")
        return tuple(values)
