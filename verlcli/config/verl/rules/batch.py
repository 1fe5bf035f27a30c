"""Rules about batches: how sequences divide over ranks, mini-batches and micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._batch_advice import mini_batches, steps
from verlcli.config.verl.rules._reading import (
    BATCH,
    GPUS,
    NODES,
    REF,
    ROLLOUT,
    SAMPLES,
    Role,
    at_least,
    data_ranks,
    divisors,
    has_ref_copy,
    listed,
    nearest,
    size,
)
from verlcli.config.verl.rules._updates import ENGINES, divides_so_far, step_sequences, step_unit, updates
from verlcli.config.verl.run import VerlRun


@rule(versions=">=0.8", engines=ENGINES)
def mini_batch_divides(run: VerlRun) -> Iterator[Verdict]:
    """VRL206: a mini-batch does not divide over the data-parallel ranks.

    Why: ppo_mini_batch_size counts prompts; times rollout.n it is the sequences of one update, and each data-parallel
        rank takes an equal share. Otherwise the first update stops with "Got mini_batch_size=...", after the whole
        first rollout.
    Example: actor_rollout_ref.actor.ppo_mini_batch_size=6 actor_rollout_ref.rollout.n=1 on 8 GPUs
    Instead: actor_rollout_ref.actor.ppo_mini_batch_size=8
    Source: verl/workers/engine_workers.py; verl issues 405, 853, 1524
    """
    for update in updates(run):
        rest = update.sequences % update.ranks
        if rest:
            yield Verdict(
                "VRL206",
                (update.mini_key, SAMPLES, GPUS, NODES),
                f"{update.sentence}; over {update.ranks} data-parallel ranks {rest} are left",
                f"set {mini_batches(run, update)}",
            )


@rule(engines=ENGINES)
def micro_batch_divides(run: VerlRun) -> Iterator[Verdict]:
    """VRL206: micro-batches do not divide a rank's share of the mini-batch.

    Why: without use_dynamic_bsz each rank cuts its share of a mini-batch into micro-batches of a fixed size, and verl
        asserts that nothing is left. Very old versions went on with no gradient step at all, which made the loss NaN.
    Example: ppo_mini_batch_size=16 n=1 ppo_micro_batch_size_per_gpu=4 on 8 GPUs: 2 sequences a rank
    Instead: ppo_micro_batch_size_per_gpu=2, or use_dynamic_bsz=True
    Source: verl/workers/engine/utils.py; verl issue 2505
    """
    for update in updates(run):
        share, rest = divmod(update.sequences, update.ranks)
        # From 0.8 on a rest is reported as such; before, FSDP rounded the share down and Megatron did not check it.
        unchecked = rest > 0 if at_least(run, "0.8") else run.engine != "dp"
        if update.dynamic or unchecked or run.get(update.micro_key) is None:
            continue
        micro = run.integer(update.micro_key)
        if micro >= 1 and (share % micro or not share):
            fitting = [number for number in divisors(max(share, 1)) if number <= micro][:-4:-1]
            good = sorted(good_values(run, "VRL206", update.micro_key, fitting) or fitting)
            yield Verdict(
                "VRL206",
                (update.micro_key, update.mini_key, SAMPLES),
                f"{update.sentence}, {share} a rank; micro-batches of {micro} do not divide that",
                f"set {run.name(update.micro_key)} to {listed(good)}"
                if share
                else f"raise {run.name(update.mini_key)} to {nearest(update.prompts, update.ranks)}",
            )


@rule(engines=ENGINES)
def step_divides(run: VerlRun) -> Iterator[Verdict]:
    """VRL206: a step's sequences do not divide over the GPUs.

    Why: without use_dynamic_bsz verl wants train_batch_size × n to divide by all GPUs (Megatron: by data-parallel
        ranks × micro-batch) and stops at its start. With it, trainers before 0.9 stop when they hand the first
        batch to the ranks; the trainer of 0.9 fills the batch up.
    Example: data.train_batch_size=100 actor_rollout_ref.rollout.n=1 on 8 GPUs
    Instead: data.train_batch_size=104
    Source: verl/utils/config.py, verl/protocol.py; verl issue 1524
    """
    if run.tree.entry == "fully_async" or run.get(BATCH) == 0:
        return
    prompts, samples, unit = size(run, BATCH), size(run, SAMPLES), step_unit(run)
    rest = prompts * samples % unit
    if rest:
        yield Verdict(
            "VRL206",
            (BATCH, SAMPLES, GPUS, NODES),
            f"{prompts} prompts × n={samples} is {prompts * samples} sequences, handed out in groups of {unit}:"
            f" {rest} are left",
            f"set {steps(run, unit // math.gcd(unit, samples))}",
        )


@rule(versions=">=0.8", engines=ENGINES, entries=("main_ppo", "one_step_off"))
def log_prob_batch_divides(run: VerlRun) -> Iterator[Verdict]:
    """VRL206: micro-batches for log-probs do not divide a rank's share of the step.

    Why: without dynamic batches each rank cuts its share of the step's sequences into micro-batches of a fixed size
        when it computes old and reference log-probs, and stops with "data size must be divisible by
        force_group_size * micro_batch_size_per_gpu" when some are left.
    Example: data.train_batch_size=64 n=1 log_prob_micro_batch_size_per_gpu=16 on 8 GPUs: 8 sequences a rank
    Instead: log_prob_micro_batch_size_per_gpu=8, or log_prob_use_dynamic_bsz=True
    Source: verl/workers/engine/utils.py
    """
    roles: list[tuple[str, Role]] = []
    if not run.flag("algorithm.rollout_correction.bypass_mode"):
        roles.append((ROLLOUT, "actor"))
    if has_ref_copy(run):
        roles.append((REF, "ref"))
    for root, role in roles:
        key = f"{root}.log_prob_micro_batch_size_per_gpu"
        if run.flag(f"{root}.log_prob_use_dynamic_bsz") or run.get(key) is None:
            continue
        micro, ranks = size(run, key), data_ranks(run, role)
        if not divides_so_far(run):
            return  # one cause, one report
        sequences = step_sequences(run)
        if sequences % ranks == 0 and sequences // ranks % micro:
            share = sequences // ranks
            yield Verdict(
                "VRL206",
                (key, BATCH, SAMPLES),
                f"a step of {sequences} sequences is {share} a rank over {ranks} ranks; {run.shown(key)} does not"
                " divide that",
                f"set it to {listed([number for number in divisors(share) if number <= micro][-3:])}",
            )


RULES: tuple[VerlRule, ...] = (
    mini_batch_divides,
    micro_batch_divides,
    step_divides,
    log_prob_batch_divides,
)
