"""What a training step is made of: its sequences, and the updates that actor and critic make of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from verlcli.config.context import NotKnown
from verlcli.config.verl.rules._reading import (
    ACTOR,
    BATCH,
    CRITIC,
    SAMPLES,
    Role,
    data_ranks,
    expect_fsdp,
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
    def step(self) -> int:
        """Prompts whose sequences just divide over the ranks."""
        return self.ranks // math.gcd(self.ranks, self.samples)

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


def step_unit(run: VerlRun) -> int:
    """Sequences by which a step must divide."""
    if run.flag(f"{ACTOR}.use_dynamic_bsz"):
        return 1 if trains_v1(run) else data_ranks(run, "actor")
    if run.engine == "dp":
        expect_fsdp(run)
    if run.engine != "megatron":
        return run.gpus
    return data_ranks(run, "actor") * size(run, f"{ACTOR}.ppo_micro_batch_size_per_gpu")


def step_rest(run: VerlRun) -> int:
    """Sequences of a step that are left when it is handed out."""
    if run.tree.entry == "fully_async" or run.get(BATCH) == 0:
        return 0
    return size(run, BATCH) * size(run, SAMPLES) % step_unit(run)


def divides_so_far(run: VerlRun) -> bool:
    """Whether step and mini-batches divide over the ranks, so that what follows from them can be judged."""
    step = size(run, BATCH) * size(run, SAMPLES)
    return step % step_unit(run) == 0 and not any(update.sequences % update.ranks for update in updates(run))


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
