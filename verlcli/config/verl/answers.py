"""What checks said about one launch, for the launches beside it that answer all their questions alike.

The launches of a script, and those on which a rule tries its advice, differ in a few settings. A check asks a launch
for settings by name; what it asked for is noted, and the check need not run again where the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from verlcli.config.quick import cached_property

if TYPE_CHECKING:
    from verlcli.config.verl.run import VerlRun

_Said = TypeVar("_Said")


class _Once(NamedTuple):
    answers: dict[str, Any]  # by what was asked for
    said: Any


class Answers:
    """Shared by launches of which more than the settings may differ: only those with the same `ground` meet."""

    def __init__(self, trial: bool = False) -> None:
        """`trial` are those of launches that are tried for advice, in which nobody reads what is advised."""
        self.is_trial = trial
        self.several = trial  # whether there is more than one launch to tell
        self.remembers = True  # what is said now, for launches to come
        self.asked: set[str] = set()  # by the check that runs now
        self._grounds: list[tuple[Any, ...]] = []
        self._known: dict[tuple[int, Hashable], list[_Once]] = {}

    @cached_property
    def trial(self) -> Answers:
        """Those of launches on which advice is tried."""
        return Answers(trial=True)

    def ground(self, facts: tuple[Any, ...]) -> int:
        """Number of what launches have in common beside their settings."""
        for number, other in enumerate(self._grounds):
            if other == facts:
                return number
        self._grounds.append(facts)
        return len(self._grounds) - 1

    def once(self, run: VerlRun, check: Hashable, make: Callable[[], _Said]) -> _Said:
        """What `make` says about `run`, or said about a launch that gives the same answers."""
        if not self.several:
            return make()
        known = self._known.setdefault((run.ground, check), [])
        for once in known:
            if run.gives(once.answers):
                self.asked.update(once.answers)
                said: _Said = once.said
                return said
        outer, self.asked = self.asked, set()
        try:
            made = make()
            if self.remembers:
                known.append(_Once({key: run.answer(key) for key in self.asked}, made))
            return made
        finally:
            self.asked |= outer
