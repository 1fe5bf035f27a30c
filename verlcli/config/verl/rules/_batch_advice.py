"""Batches that go together: what to write where one of them does not divide over the ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from verlcli.config.verl.rules._advice import around, good_values
from verlcli.config.verl.rules._reading import (
    BATCH,
    REF,
    ROLLOUT,
    divisors,
    listed,
    size,
)
from verlcli.config.verl.rules._updates import Update, step_rest, step_unit, updates
from verlcli.config.verl.run import VerlRun

_TOGETHER, _STEPS = 6, 2  # mini-batches that are tried with other settings, and steps with each of them
_LOG_PROB = "log_prob_micro_batch_size_per_gpu"


def mini_batches(run: VerlRun, update: Update) -> str:
    """Mini-batches that divide over the ranks; those that also make up the step first."""
    if step_rest(run) and update.role == "actor":
        unit = step_unit(run)
        both = _both(run, update, around(size(run, BATCH), unit // math.gcd(unit, update.samples)))
        if both:
            return both
    prompts = size(run, BATCH) if run.get(BATCH) else 0
    near = around(update.prompts, update.step)
    likely = sorted(near, key=lambda mini: bool(prompts % mini))
    return mini_batch_advice(run, "VRL206", update, likely) or f"{run.name(update.mini_key)} to {_two(near)}"


def mini_batch_advice(run: VerlRun, code: str, update: Update, candidates: list[int]) -> str | None:
    """`KEY to 64 or 128`: mini-batches that solve a problem, or one with other settings where none does alone."""
    key = update.mini_key
    good = good_values(run, code, key, candidates, 2)
    if good:
        return f"{run.name(key)} to {_two(good)}"
    for mini in candidates[:_TOGETHER]:
        for beside in _beside(run, update, mini):
            if good_values(run, code, key, [mini], beside=beside):
                return _all_of(run, {key: mini, **beside})
    return None


def _two(numbers: list[int]) -> str:
    return listed(sorted(numbers[:2]))


def _all_of(run: VerlRun, values: Mapping[str, int]) -> str:
    return " and ".join(f"{run.name(key)}={value}" for key, value in values.items())


def _beside(run: VerlRun, update: Update, mini: int) -> Iterator[dict[str, int]]:
    """Settings that a mini-batch may need beside it: smaller micro-batches, and a step of whole mini-batches."""
    yield _micro_for(run, update, mini, size(run, BATCH))
    whole = math.lcm(mini, update.step)
    for batch in around(size(run, BATCH), whole)[:_STEPS]:
        yield {BATCH: batch, **_micro_for(run, update, mini, batch)}


def _micro_for(run: VerlRun, update: Update, mini: int, batch: int) -> dict[str, int]:
    """The largest micro-batches, up to those that are set, that divide a rank's share."""
    if update.dynamic:
        return {}
    passes = {update.micro_key: mini, f"{ROLLOUT}.{_LOG_PROB}": batch, f"{REF}.{_LOG_PROB}": batch}
    found: dict[str, int] = {}
    for key, prompts in passes.items():
        share = prompts * update.samples // update.ranks
        if share and run.get(key) is not None and share % size(run, key):
            found[key] = max(part for part in divisors(share) if part <= size(run, key))
    return found


def steps(run: VerlRun, step: int) -> str:
    """Steps near the wanted one that divide over the GPUs; those of whole mini-batches first."""
    update = next(updates(run))
    near = around(size(run, BATCH), step)
    likely = sorted(near, key=lambda prompts: bool(prompts % update.prompts))
    # Beside a mini-batch that has to change as well, the two are chosen together.
    good = [] if update.sequences % update.ranks else good_values(run, "VRL206", BATCH, likely, 2)
    if not good:
        return _both(run, update, near) or f"{run.name(BATCH)} to {_two(near)}"
    return f"{run.name(BATCH)} to {_two(good)}"


def _both(run: VerlRun, update: Update, steps: list[int]) -> str | None:
    """A step and a mini-batch that go together."""
    for batch in steps[:_TOGETHER]:
        minis = [mini for mini in divisors(batch) if mini % update.step == 0]
        for mini in sorted(minis, key=lambda mini: abs(mini - update.prompts))[:_STEPS]:
            beside = {update.mini_key: mini, **_micro_for(run, update, mini, batch)}
            if good_values(run, "VRL206", BATCH, [batch], beside=beside):
                return _all_of(run, {BATCH: batch, **beside})
    return None
