"""Rules about batches: how sequences divide over ranks, mini-batches and micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import around, good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import (
    ACTOR,
    BATCH,
    CRITIC,
    GPUS,
    NODES,
    REF,
    ROLLOUT,
    SAMPLES,
    Role,
    at_least,
    data_ranks,
    divisors,
    expect_fsdp,
    has_ref_copy,
    listed,
    nearest,
    size,
    trains_v1,
    uses_critic,
)
from verlcli.config.verl.run import VerlRun

ENGINES = ("dp", "megatron", "veomni")


@dataclass(frozen=True, slots=True)
class Update:
    """What one optimizer step of a role works on."""

    role: Role
    mini_key: str
    micro_key: str
    dynamic: bool
    prompts: int
    samples: int
    ranks: int

    @property
    def sequences(self) -> int:
        """Sequences of one mini-batch over all ranks."""
        return self.prompts * self.samples

    @property
    def sentence(self) -> str:
        """The arithmetic up to the sequences of a mini-batch."""
        return f"a mini-batch of {self.prompts} prompts × n={self.samples} is {self.sequences} sequences"


def updates(run: VerlRun) -> Iterator[Update]:
    """Updates of actor and critic; a critic that only takes the actor's values comes with it."""
    actor = _update(run, "actor", ACTOR)
    yield actor
    if uses_critic(run):
        critic = _update(run, "critic", CRITIC)
        if (critic.prompts, critic.ranks) != (actor.prompts, actor.ranks) or run.is_set(critic.micro_key):
            yield critic


def _update(run: VerlRun, role: Role, root: str) -> Update:
    mini, micro = f"{root}.ppo_mini_batch_size", f"{root}.ppo_micro_batch_size_per_gpu"
    if not run.is_set(mini):
        mini = f"{ACTOR}.ppo_mini_batch_size"  # which the critic follows
    dynamic, samples = run.flag(f"{root}.use_dynamic_bsz"), size(run, SAMPLES)
    return Update(role, mini, micro, dynamic, size(run, mini), samples, data_ranks(run, role))


def step_prompts(run: VerlRun) -> int:
    """Prompts of one training step; silent where no batch is counted."""
    prompts = size(run, BATCH)
    if run.get("trainer.v1.trainer_mode") == "separate_async":
        prompts //= size(run, "trainer.v1.separate_async.parameter_sync_step")
    if prompts < 1:
        raise NotKnown
    return prompts


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
                f"set {_mini_batches(run, update)}",
            )


def _mini_batches(run: VerlRun, update: Update) -> str:
    """Mini-batches that divide over the ranks, those that also make up the step first; with a step that does, too."""
    step, key = update.ranks // math.gcd(update.ranks, update.samples), update.mini_key
    batch = _good_steps(run)[:1]
    prompts = batch[0] if batch else size(run, BATCH) if run.get(BATCH) else 0
    beside = {BATCH: batch[0]} if batch else {}
    near = around(update.prompts, step)
    likely = sorted(near, key=lambda mini: bool(prompts % mini)) if prompts else near
    good = good_values(run, "VRL206", key, likely, 2, beside=beside)
    if batch and good and not good_values(run, "VRL206", key, good[:1]):
        return f"{run.name(BATCH)}={batch[0]} and {run.name(key)}={good[0]}"
    return f"{run.name(key)} to {listed(sorted(good)) or nearest(update.prompts, step)}"


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
    prompts, samples, unit = size(run, BATCH), size(run, SAMPLES), _unit(run)
    rest = prompts * samples % unit
    if rest:
        good = listed(sorted(_good_steps(run))) or nearest(prompts, unit // math.gcd(unit, samples))
        yield Verdict(
            "VRL206",
            (BATCH, SAMPLES, GPUS, NODES),
            f"{prompts} prompts × n={samples} is {prompts * samples} sequences, handed out in groups of {unit}:"
            f" {rest} are left",
            f"set {run.name(BATCH)} to {good}",
        )


def _good_steps(run: VerlRun) -> list[int]:
    """Prompts of a step near the wanted ones that divide over the GPUs; empty when those do, or no step is counted."""
    if run.tree.entry == "fully_async" or run.get(BATCH) == 0:
        return []
    prompts, samples, unit = size(run, BATCH), size(run, SAMPLES), _unit(run)
    near = around(prompts, unit // math.gcd(unit, samples)) if prompts * samples % unit else []
    return good_values(run, "VRL206", BATCH, near, 2) if near else []


def _unit(run: VerlRun) -> int:
    """Sequences by which a step must divide."""
    if run.flag(f"{ACTOR}.use_dynamic_bsz"):
        return 1 if trains_v1(run) else data_ranks(run, "actor")
    if run.engine == "dp":
        expect_fsdp(run)
    if run.engine != "megatron":
        return run.gpus
    return data_ranks(run, "actor") * size(run, f"{ACTOR}.ppo_micro_batch_size_per_gpu")


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


def divides_so_far(run: VerlRun) -> bool:
    """Whether step and mini-batches divide over the ranks, so that what follows from them can be judged."""
    step = size(run, BATCH) * size(run, SAMPLES)
    return step % _unit(run) == 0 and not any(update.sequences % update.ranks for update in updates(run))


def step_sequences(run: VerlRun) -> int:
    """Sequences of a step, filled up as the trainer of 0.9 does it."""
    sequences = step_prompts(run) * size(run, SAMPLES)
    unit = filled_to(run) if trains_v1(run) else 1
    return math.ceil(sequences / unit) * unit


def filled_to(run: VerlRun) -> int:
    """The trainer of 0.9 fills a step up to a multiple of this many sequences."""
    unit = data_ranks(run, "actor")
    for update in updates(run):
        unit = math.lcm(unit, update.sequences)
    return unit


RULES: tuple[VerlRule, ...] = (
    mini_batch_divides,
    micro_batch_divides,
    step_divides,
    log_prob_batch_divides,
)
