"""Functions that Hydra's override grammar knows: casts such as `int(x)`, and sweeps such as `choice(a,b)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_MOST = 100  # values of a range that are worth a look each


class CastError(Exception):
    """A function of the override grammar refuses its arguments, or there is none of that name."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Several values for one key, which Hydra takes with `--multirun` only.

    Attributes:
        values: the choices; empty for intervals and globs, and for ranges that are long or not of whole numbers.
        simple: written as `a,b` rather than by a function.
    """

    values: tuple[Any, ...] = ()
    simple: bool = False


def call(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    """Result of the function `name`; every kind of sweep is a `Sweep`.

    Raises:
        CastError: no such function, or it refuses the arguments.
    """
    if name in _CASTS:
        return _cast(name, [*arguments, *named.values()], named)
    if name in _SWEEPS:
        return _sweep(name, arguments, named)
    if name in ("sort", "shuffle"):
        return _ordered(name, arguments, named)
    raise CastError(f"Hydra has no function {name}()")


def _cast(name: str, values: list[Any], named: dict[str, Any]) -> Any:
    if not values or set(named) - {"value"} or (named and len(values) > 1):
        raise CastError(f"{name}() takes one value")
    value = values[0] if len(values) == 1 else Sweep(tuple(values), simple=True)
    try:
        return _each(_CASTS[name], value)
    except (ValueError, TypeError, OverflowError) as error:
        raise CastError(f"{name}() refuses its value: {error}") from None


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _each(convert, item) for key, item in value.items()}
    if isinstance(value, list):
        return [_each(convert, item) for item in value]
    if isinstance(value, Sweep):
        return Sweep(tuple(_each(convert, item) for item in value.values), value.simple)
    if value is None:
        raise TypeError("null cannot be converted")
    return convert(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, str):
        return bool(value)
    if value.lower() not in ("true", "false"):
        raise ValueError(f"'{value}' is neither true nor false")
    return value.lower() == "true"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_CASTS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": _text, "bool": _boolean}


def _sweep(name: str, arguments: list[Any], named: dict[str, Any]) -> Sweep:
    if not arguments and not named:
        raise CastError(f"{name}() needs an argument")
    last = [*arguments, *named.values()][-1]
    if isinstance(last, Sweep) and (name == "tag" or (name == "choice" and last.simple)):
        return Sweep(last.values)
    if name == "tag" or isinstance(last, Sweep):
        raise CastError(f"{name}() does not take this")
    if name == "range":
        return Sweep(_counted(arguments, named))
    return Sweep(tuple(arguments) if name == "choice" else ())


def _counted(arguments: list[Any], named: dict[str, Any]) -> tuple[int, ...]:
    """Values of a short range of whole numbers: `range(1,9)`, `range(start=1,stop=9,step=2)`; otherwise none."""
    start, stop = arguments[:2] if len(arguments) > 1 else (0, *arguments[:1]) if arguments else (0, None)
    start, stop, step = named.get("start", start), named.get("stop", stop), named.get("step", [*arguments, 1, 1, 1][2])
    if not all(type(value) is int for value in (start, stop, step)) or step == 0:
        return ()
    values = range(start, stop, step)
    return tuple(values) if len(values) <= _MOST else ()


_SWEEPS = ("choice", "range", "interval", "glob", "tag")


def _ordered(name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
    reverse = bool(named.pop("reverse", False))
    values = [*arguments, *named.values()]
    only = values[0] if len(values) == 1 else Sweep(tuple(values), simple=True)
    if name == "shuffle":
        return only if isinstance(only, (list, Sweep)) else [only]
    try:
        if isinstance(only, Sweep):
            return Sweep(tuple(sorted(only.values, reverse=reverse)), only.simple)
        return sorted(only, reverse=reverse) if isinstance(only, list) else only
    except TypeError as error:
        raise CastError(f"sort() refuses its list: {error}") from None
