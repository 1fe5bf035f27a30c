"""The `Plan`: numbers and choices worked out from a `Config` and a machine, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from verlcli.plan.memory.types import DeviceMemory

Bound = Literal["bandwidth", "arithmetic", "launches"]
Device = Literal["cpu", "cuda"]
Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How one step's prompts become updates. `prompts` and `mini_batch_prompts` count over all ranks."""

    prompts: int  # data.train_batch_size
    samples_per_prompt: int  # rollout.n
    sequences: int  # prompts x n
    ranks: int
    sequences_per_rank: int
    mini_batch_prompts: int
    mini_batch_sequences_per_rank: int
    mini_batches: int  # an epoch
    micro_batch_sequences: int  # a forward pass on one rank
    accumulation_steps: int  # micro batches a mini batch
    ppo_epochs: int
    updates: int  # optimizer steps a training step
    equation: tuple[str, ...]  # the same, written out for people


@dataclass(frozen=True, slots=True)
class RolePlan:
    """One role (actor, rollout, critic, reference, reward_model, reward) on its devices."""

    role: str
    devices: tuple[str, ...]  # "cpu", "cuda:0"
    engine: str
    dtype: Precision
    reason: str  # why this engine and dtype


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know: a fallback taken, a key without effect here."""

    severity: Literal["info", "warning"]
    path: str  # the key it concerns
    message: str


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """Seconds of one part of a step, and what binds it most."""

    name: str
    seconds: float
    bound: Bound


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step in which every prompt and response has its greatest length; reward functions are not in it.

    Attributes:
        tokens: generated.
    """

    phases: tuple[PhaseTime, ...]
    tokens: int

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.phases)

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens over the whole step's seconds."""
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Plan:
    name: str  # of the run, from the config file's or preset's name
    backend: str
    device: Device
    batch: BatchPlan
    placement: tuple[RolePlan, ...]
    notes: tuple[Note, ...]
    total_steps: int
    run_dir: str
    command: str  # the shell command that starts it
    memory: DeviceMemory | None = None  # of the actor's device
    time: StepTime | None = None
    missing: str | None = None  # the fact without which nothing is estimated

    def role(self, name: str) -> RolePlan | None:
        """The plan of one role, or None when the run has no such role."""
        return next((r for r in self.placement if r.role == name), None)
