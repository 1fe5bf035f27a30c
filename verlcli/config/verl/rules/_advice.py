"""Advice that holds: values are tried on the launch before they are offered, so that none of them is the next error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from verlcli.config.context import NotKnown
from verlcli.config.problems import Place
from verlcli.config.verl.run import Setting, VerlRun

_TRIES = 64  # values tried for one suggestion
_TRYING: ContextVar[bool] = ContextVar("trying", default=False)

Found = frozenset[tuple[str, str]]


def with_values(run: VerlRun, values: Mapping[str, Any]) -> VerlRun:
    """The launch with other values, as if somebody had taken the advice to set them."""
    return replace(run, settings=(*run.settings, *(_setting(run, key, value) for key, value in values.items())))


def _setting(run: VerlRun, key: str, value: Any) -> Setting:
    setting = run.setting(key)
    if setting is not None and not setting.inside:
        return replace(setting, value=value, raw=str(value), prefix="++")
    return Setting(key, value, Place(), Place(), "++", str(value), run.name(key))


def good_values(run: VerlRun, code: str, key: str, candidates: Iterable[int], most: int | None = None) -> list[int]:
    """Those `candidates` for `key` that leave nothing of `code` at its keys and bring no other problem.

    Args:
        run: the launch as it is.
        code: of the problem that the advice is to solve.
        key: to be set.
        candidates: the best first; at most 64 are tried.
        most: how many are wanted; None: all that are good.

    Returns:
        In the order of `candidates`: those that bring not even a warning, else those that bring no error. Empty when
        every one does. Untried while advice is tried already: nobody reads what is said then.
    """
    wanted = list(candidates)[:_TRIES]
    if _TRYING.get():
        return wanted[:most]
    errors, doubts = _found(run)
    clean: list[int] = []
    usable: list[int] = []
    for value in wanted:
        if most is not None and len(clean) >= most:
            break
        new_errors, new_doubts = (after - before for after, before in zip(_found(with_values(run, {key: value})), (errors, doubts)))
        print
    return (clean or usable)[:most]
