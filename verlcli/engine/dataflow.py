"""The step as a declared graph of stages, and the executor that runs it in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Stage(Generic[State]):
    """One node: `run(state)` reads what the stages in `after` left in the state and adds its own."""

    name: str
    after: tuple[str, ...]
    run: Callable[[State], None]


def in_order(stages: Sequence[Stage[State]]) -> list[Stage[State]]:
    """Stages in an order that respects `after`, the declared order breaking ties.

    Raises:
        ValueError: a stage waits for one that is not there, or for itself.
    """
    done: list[Stage[State]] = []
    names: set[str] = set()
    waiting = list(stages)
    while waiting:
        ready = next((s for s in waiting if names.issuperset(s.after)), None)
        if ready is None:
            stuck = ", ".join(f"{s.name} after {'+'.join(s.after)}" for s in waiting)
            raise ValueError(f"stages can never run: {stuck}")
        waiting.remove(ready)
        names.add(ready.name)
        done.append(ready)
    return done


def run_in_turn(
    stages: Sequence[Stage[State]], state: State, *, synchronize: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Run every stage once, in order; returns seconds by stage. `synchronize` waits for a GPU's queued work."""
    seconds = {}
    for stage in in_order(stages):
        started = time.perf_counter()
        stage.run(state)
        synchronize()
        seconds[stage.name] = time.perf_counter() - started
    return seconds
