"""Rules about a training step and the mini-batches it is cut into."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import around
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._batch_advice import mini_batch_advice
from verlcli.config.verl.rules._reading import (
    ACTOR,
    APART,
    BATCH,
    GPUS,
    NODES,
    SAMPLES,
    at_least,
    divisors,
    listed,
    size,
    trains_v1,
)
from verlcli.config.verl.rules._updates import ENGINES, divides_so_far, step_prompts, step_sequences, updates
from verlcli.config.verl.run import VerlRun

_MUCH_PADDING = 0.05


@rule(versions=">=0.9", engines=ENGINES, entries=("main_ppo",))
def step_is_filled_up(run: VerlRun) -> Iterator[Verdict]:
    """VRL207: much of a step is padding.

    Why: since 0.9 the trainer fills a step up with dummy sequences to whole mini-batches over all ranks. They count
        for nothing in the loss but take time in every pass, and make the last mini-batch of a step a small one.
    Example: data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=256 with use_dynamic_bsz=True
    Instead: actor_rollout_ref.actor.ppo_mini_batch_size=64
    Source: verl/trainer/ppo/v1/trainer_base.py, verl/trainer/ppo/padding_utils.py
    """
    if not trains_v1(run) or _is_too_small(run) or not divides_so_far(run):
        return
    sequences = step_prompts(run) * size(run, SAMPLES)
    filled = step_sequences(run)
    dummies = filled - sequences
    if dummies / filled > _MUCH_PADDING:
        mini = f"{ACTOR}.ppo_mini_batch_size"
        update, near = next(updates(run)), sorted(divisors(step_prompts(run)), reverse=True)
        near.sort(key=lambda number: abs(number - update.prompts))
        good = mini_batch_advice(run, "VRL207", update, [*near, *around(update.prompts, update.step)])
        yield Verdict(
            "VRL207",
            (mini, BATCH, SAMPLES, GPUS, NODES),
            f"a step of {sequences} sequences is filled up with {dummies} dummies to {filled}"
            f" ({round(100 * dummies / filled)}%): whole mini-batches of {size(run, mini)} prompts over all ranks",
            f"set {good}" if good else f"let {run.name(mini)} divide {run.name(BATCH)}",
            "warning",
        )


def _is_too_small(run: VerlRun) -> bool:
    return not run.flag(f"{ACTOR}.use_dynamic_bsz") and run.integer(BATCH) < size(run, f"{ACTOR}.ppo_mini_batch_size")


@rule()
def mini_batch_fits_the_step(run: VerlRun) -> Iterator[Verdict]:
    """VRL207: a mini-batch is larger than the step, or does not divide it.

    Why: a step is cut into mini-batches. Without use_dynamic_bsz verl refuses one that is larger than the step. With
        it, 0.8 stops at the first update ("x % y != 0", as for a step that is no whole number of mini-batches), older
        versions make one update of the step, and 0.9 fills the step up with dummies.
    Example: data.train_batch_size=64, and ppo_mini_batch_size left at 256
    Instead: actor_rollout_ref.actor.ppo_mini_batch_size=64
    Source: verl/workers/config/actor.py, verl/utils/tensordict_utils.py
    """
    mini = f"{ACTOR}.ppo_mini_batch_size"
    prompts, wanted = run.integer(BATCH), size(run, mini)
    if run.tree.entry == "fully_async" or prompts < 0:
        return
    if _is_too_small(run):
        message = f"the step has {prompts} prompts, less than one mini-batch of {wanted}"
        yield Verdict("VRL207", (mini, BATCH), message, _parts_of(run))
    elif prompts % wanted and at_least(run, "0.8") and not trains_v1(run) and run.tree.entry not in APART:
        message = f"a step of {prompts} prompts is no whole number of mini-batches of {wanted}"
        yield Verdict("VRL207", (mini, BATCH), message, _parts_of(run))
    elif prompts < wanted and not at_least(run, "0.8"):
        message = (
            f"a mini-batch of {wanted} prompts is never full: the step has {prompts}, and makes one update of them"
        )
        yield Verdict("VRL207", (mini, BATCH), message, _parts_of(run), "warning")


def _parts_of(run: VerlRun) -> str:
    """Mini-batches that make up the step."""
    mini, prompts = f"{ACTOR}.ppo_mini_batch_size", run.integer(BATCH)
    if not prompts:
        return f"raise {run.name(BATCH)}"
    fitting = [number for number in divisors(prompts) if number <= size(run, mini)][::-1]
    try:
        good = mini_batch_advice(run, "VRL207", next(updates(run)), fitting)
    except NotKnown:  # how sequences spread over the GPUs
        good = None
    return f"set {good}" if good else f"set {run.name(mini)} to {listed(sorted(fitting[:3]))}"


RULES: tuple[VerlRule, ...] = (step_is_filled_up, mini_batch_fits_the_step)
