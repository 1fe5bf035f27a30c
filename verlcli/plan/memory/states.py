"""What a model holds from step to step: weights, masters, moments, and the gradients of an update."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.config.types import Config, OptimConfig
from verlcli.facts import ModelShape
from verlcli.facts.parameters import lora_params, parameter_counts
from verlcli.plan.memory.types import Part
from verlcli.plan.types import Precision

BYTES: dict[Precision, int] = {"fp32": 4, "bf16": 2, "fp16": 2}
FULL_PRECISION = 4  # bytes


@dataclass(frozen=True, slots=True)
class States:
    """Numbers of one role's model and the bytes that each takes. A value head is in fp32 whatever the model is in."""

    role: str
    dtype: Precision
    params: int  # without a value head
    trained: int  # of these and of the adapters; 0: never updated
    adapters: int = 0
    value_head: int = 0  # always trained
    master_dtype: str = "fp32"

    @property
    def apart(self) -> bool:
        """Whether trained weights have masters beside them."""
        return self.trained > 0 and self.dtype != "fp32" and not (self.dtype == "bf16" == self.master_dtype)

    @property
    def gradient_bytes(self) -> int:
        """Of one number's gradient, and of each of its moments: as of its master."""
        return FULL_PRECISION if self.apart else BYTES[self.dtype]

    @property
    def weights(self) -> int:
        """Bytes, adapters included."""
        return (self.params + self.adapters) * BYTES[self.dtype] + self.value_head * FULL_PRECISION

    @property
    def masters(self) -> int:
        """Bytes of the masters that stand beside the weights."""
        return self.trained * FULL_PRECISION if self.apart else 0

    @property
    def moments(self) -> int:
        """Bytes of AdamW's two, which exist from the first update on."""
        return 2 * self.gradients

    @property
    def gradients(self) -> int:
        """Bytes, in the dtype of the masters."""
        return self.trained * self.gradient_bytes + self.value_head * FULL_PRECISION

    def held(self, *, updated: bool) -> list[Part]:
        """Weights and what the optimizer keeps, after the first update or before."""
        numbers = f"{_millions(self.params + self.adapters)} x {BYTES[self.dtype]} bytes ({self.dtype})"
        shrink = ("model.dtype",) if self.dtype == "fp32" else ()
        parts = [Part(self.role, "weights", self.weights, numbers, shrink)]
        if not self.gradients:
            return parts
        master = FULL_PRECISION if self.apart else 0
        each = f"{master} (master)" if master else ""
        if updated:
            each += f"{' + ' if each else ''}{2 * self.gradient_bytes} (moments)"
        size = self.masters + (self.moments if updated else 0)
        keys = (f"{self.role}.optim.master_dtype", "model.lora_rank")
        return [*parts, Part(self.role, "optimizer", size, f"{_millions(self.trained)} x {each} bytes", keys)]

    def gradient_part(self) -> Part:
        """All gradients of an update."""
        equation = f"{_millions(self.trained)} x {self.gradient_bytes} bytes"
        return Part(self.role, "gradients", self.gradients, equation, ("model.lora_rank",))


def model_states(role: str, shape: ModelShape, config: Config, dtype: Precision, *, trained: bool) -> States | None:
    """States of the model that `role` loads; None where its parameters are not known."""
    counts = parameter_counts(shape)
    if counts is None or shape.vision_params is None:
        return None
    params = counts.total + shape.vision_params
    if role == "reward_model":
        return States(role, dtype, params - counts.head + shape.hidden_size, trained=0)
    lora = config.model.lora_rank
    if not trained:
        return States(role, dtype, params, trained=0)
    optim: OptimConfig = config.critic.optim if role == "critic" else config.actor.optim
    value_head = shape.hidden_size + 1 if role == "critic" else 0
    if not lora:
        params -= counts.head if role == "critic" else 0
        return States(role, dtype, params, params, value_head=value_head, master_dtype=optim.master_dtype)
    adapters = lora_params(shape, lora, config.model.lora_target_modules)
    if adapters is None:
        return None
    return States(role, dtype, params, adapters, adapters, value_head, optim.master_dtype)


def _millions(numbers: int) -> str:
    return f"{numbers / 1e9:.2f}B" if numbers >= 1e9 else f"{numbers / 1e6:.1f}M"
