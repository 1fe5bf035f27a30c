"""Rules about micro-batches: fixed or dynamic, and which of their keys are read."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import ACTOR, CRITIC, REF, ROLLOUT, at_least, uses_critic, uses_ref
from verlcli.config.verl.run import VerlRun


@rule(versions=">=0.8")
def both_passes_batch_alike(run: VerlRun) -> Iterator[Verdict]:
    """VRL209: update and log-probs of the actor disagree about dynamic batches.

    Why: one engine does both, and the worker asserts, without a message, that the two flags are equal. The second
        follows the first unless it is set.
    Example: actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=False
    Instead: actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True, or leave it out
    Source: verl/workers/engine_workers.py
    """
    update, log_prob = f"{ACTOR}.use_dynamic_bsz", f"{ROLLOUT}.log_prob_use_dynamic_bsz"
    if run.flag(update) != run.flag(log_prob):
        yield Verdict(
            "VRL209",
            (log_prob, update),
            f"{run.shown(log_prob)}, but {run.shown(update)}; one engine serves both and stops at its start",
            f"set {run.name(log_prob)}={run.flag(update)}",
            fix=Fix("set", log_prob, run.flag(update)),
        )


@rule()
def micro_batch_is_said(run: VerlRun) -> Iterator[Verdict]:
    """VRL210: a micro-batch size is missing, said twice, or said in a key that is no longer read.

    Why: without use_dynamic_bsz actor, critic, log-probs and reference each need a micro-batch size in sequences per
        GPU. verl refuses none at all, and the old global key beside the new one; since 0.8 workers read the `_per_gpu`
        key alone and stop at an assertion without a message.
    Example: actor_rollout_ref.actor.ppo_micro_batch_size=64
    Instead: actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8
    Source: verl/utils/config.py, verl/workers/config/actor.py, verl/workers/engine_workers.py
    """
    for old, dynamic in _wanted(run):
        new = f"{old}_per_gpu"
        if run.get(old) is not None and (run.is_set(new) or at_least(run, "0.8")):
            yield _said_twice(run, old) if run.is_set(new) else _said_globally(run, old)
        elif run.get(old) is None and run.get(new) is None:
            yield Verdict(
                "VRL210",
                (new, dynamic),
                *_size_is_missing(run, new, dynamic),
            )


def _size_is_missing(run: VerlRun, new: str, dynamic: str) -> tuple[str, str]:
    """Message and advice; the problem stands at the flag where somebody set it, else at the key itself."""
    what, instead = "how many sequences a GPU takes at once", f"{run.name(dynamic)}=True"
    if run.is_set(dynamic):
        return f"{run.name(new)} is not set: {what}", f"write 1 or more there, or {instead}"
    return f"not set: {what}", f"write 1 or more here, or {instead}"


def _wanted(run: VerlRun) -> Iterator[tuple[str, str]]:
    """The global keys of those passes that need a size, each with the flag that makes it needless."""
    flag = f"{ACTOR}.use_dynamic_bsz"
    fixed = not run.flag(flag)
    if fixed:
        yield f"{ACTOR}.ppo_micro_batch_size", flag
        yield f"{ROLLOUT}.log_prob_micro_batch_size", flag
    if uses_ref(run) and (fixed or not run.flag(f"{REF}.log_prob_use_dynamic_bsz")):
        yield f"{REF}.log_prob_micro_batch_size", flag if fixed else f"{REF}.log_prob_use_dynamic_bsz"
    if uses_critic(run) and not run.flag(f"{CRITIC}.use_dynamic_bsz"):
        yield f"{CRITIC}.ppo_micro_batch_size", flag


def _said_twice(run: VerlRun, old: str) -> Verdict:
    new = f"{old}_per_gpu"
    message = f"{run.shown(old)} beside {run.shown(new)}: verl refuses both at once"
    return Verdict("VRL210", (old, new), message, f"remove {run.name(old)}", fix=Fix("remove", old))


def _said_globally(run: VerlRun, old: str) -> Verdict:
    message = f"{run.name(old)} is no longer read by the workers, which stop without a size per GPU"
    return Verdict("VRL210", (old,), message, f"write {run.name(old)}_per_gpu, in sequences per GPU, instead")


RULES: tuple[VerlRule, ...] = (both_passes_batch_alike, micro_batch_is_said)
