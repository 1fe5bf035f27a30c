"""The `Plan`: numbers and choices worked out from a `Config` and a machine, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

    def role(self, name: str) -> RolePlan | None:
        """The plan of one role, or None when the run has no such role."""
        return next((r for r in self.placement if r.role == name), None)
