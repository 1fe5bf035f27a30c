"""Advice that holds: values are tried on the launch before they are offered, so that none of them is the next error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from verlcli.config.context import NotKnown
from verlcli.config.problems import Place, Severity
from verlcli.config.verl.rules._base import VerlRule
from verlcli.config.verl.run import Setting, VerlRun

_TRIES = 32  # values tried for one suggestion
# Rules about numbers that depend on each other; the others say the same of every value.
_NUMBERS = frozenset(f"VRL{number}" for number in (*range(201, 225), 228, 241, 243))
Kind = tuple[str, str]  # code, first key


def with_values(run: VerlRun, values: Mapping[str, Any]) -> VerlRun:
    """The launch with other values, as if somebody had taken the advice to set them."""
    return replace(run, settings=(*run.settings, *(_setting(run, key, value) for key, value in values.items())))


def _setting(run: VerlRun, key: str, value: Any) -> Setting:
    old = run.setting(key)
    places = (old.place, old.value_place) if old else (Place(), Place())
    return Setting(key, value, *places, "++", str(value), run.name(key))


def good_values(
    run: VerlRun,
    code: str,
    key: str,
    candidates: Iterable[int],
    most: int | None = None,
    at: str | None = None,
    beside: Mapping[str, int] | None = None,
) -> list[int]:
    """Those `candidates` for `key` that solve a problem and bring no other.

    Args:
        run: the launch as it is.
        code: of the problem to be solved.
        key: to be set.
        candidates: the best first; at most 32 are tried.
        most: how many are wanted; None: all that are good.
        at: first key of the problem; None: `key`.
        beside: values that are advised together with it.

    Returns:
        In the order of `candidates`: those that bring not even a warning, else those that bring no error. Empty when
        every one brings one. While advice is being tried, all of them: nobody reads then what is advised.
    """
    if run.answers.is_trial:
        return list(islice(candidates, most))
    trial, rules = replace(run, answers=run.answers.trial), _rules(run, code)
    trial.answers.asked, trial.answers.remembers = set(), True
    before, problem = set(_said(trial, rules)), (code, at or key)
    trial.answers.remembers = False  # no value is tried twice
    known, clean, usable = {kind for _, kind in before}, list[int](), list[int]()
    for value in islice(candidates, _TRIES):
        is_clean = True
        for severity, kind in _said(with_values(trial, {**(beside or {}), key: value}), rules):
            # An old error about the same key speaks of this value, too.
            wrong = severity == "error" and (kind[1] == key or (severity, kind) not in before)
            if wrong or kind == problem:
                break  # whatever other rules say
            is_clean = is_clean and kind in known
        else:
            (clean if is_clean else usable).append(value)
        if len(clean) == most:
            break
    run.answers.asked |= trial.answers.asked
    return (clean or usable)[:most]


def _said(run: VerlRun, rules: Sequence[VerlRule]) -> Iterator[tuple[Severity, Kind]]:
    """Errors and warnings of rules; what cannot be checked is neither."""
    for rule in rules:
        try:
            for verdict in rule.verdicts(run):
                if verdict.severity != "note":
                    yield verdict.severity, (verdict.code, verdict.keys[0])
        except NotKnown:
            continue


def _rules(run: VerlRun, code: str) -> list[VerlRule]:
    """Those about numbers, of which those of `code` say soonest that a value is no good."""
    from verlcli.config.verl.rules import rules_for

    return sorted((rule for rule in rules_for(run) if rule.code in _NUMBERS), key=lambda rule: rule.code != code)


def around(number: int, step: int) -> list[int]:
    """Multiples of `step` from half to twice a number, the nearest first; at least one."""
    low, high = max(number // 2 // step, 1), max(2 * number // step, 1)
    near = max(number // step, 1)
    # What is farther away is not tried anyway.
    found = range(max(low, near - _TRIES), min(high, near + _TRIES) + 1)
    return sorted((count * step for count in found), key=lambda size: (abs(size - number), size))
