"""`TrainingEngine`: forward passes over a batch, and updates from a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from verlcli.engine.batch import Batch

LossFn = Callable[[Any, Batch], tuple[Tensor, dict[str, Tensor]]]
"""(what the forward pass gives, micro batch) -> (its share of the mini batch's loss, stats that add up)."""


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """One optimizer step.

    Attributes:
        loss: of the mini batch.
        grad_norm: before clipping.
        applied: False when loss or gradient was not finite and the step was left out.
        stats: the loss function's, summed over micro batches.
    """

    loss: float
    grad_norm: float
    applied: bool
    stats: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ShardingInfo:
    """Where a role's weights are: `get_sharding_info()` of the Python API."""

    phase: str  # "training" or "generation"
    engine: str
    world_size: int
    device_map: tuple[str, ...]
    placement: str  # "replicated" with one process
    parameters: int
    trainable_parameters: int
    bytes_per_rank: int
    last_transition_bytes: int  # moved between training and generation layout

    def __str__(self) -> str:
        gib = self.bytes_per_rank / 2**30
        return (
            f"{self.phase}: {self.engine}, {self.world_size} rank(s) on {', '.join(self.device_map)}, "
            f"{self.placement}; "
            f"{self.parameters:,} parameters ({self.trainable_parameters:,} trainable), {gib:.3f} GiB a rank, "
            f"last transition {self.last_transition_bytes} bytes"
        )


class TrainingEngine(Protocol):
    """One model with its optimizer."""

    def update(self, micro_batches: list[Batch], loss_fn: LossFn, *, lr: float) -> UpdateResult:
        """One optimizer step from one mini batch, given as micro batches."""
        ...

    def get_sharding_info(self) -> ShardingInfo:
        """Layout of the weights now."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Trainable parameters by name."""
        ...
