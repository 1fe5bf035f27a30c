"""What a plan says of memory: which part of which role takes how many bytes in which phase of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Component = Literal[
    "weights",
    "gradients",
    "optimizer",  # masters and moments
    "activations",  # kept from the forward to the backward pass
    "working set",  # of the layer that runs
    "logits",  # of a chunk, and probabilities kept for the backward pass
    "kv cache",
    "merged adapters",
    "batch",  # tokens, masks, log-probs of a step
    "graphs",  # temporaries that CUDA graphs hold
]
PHASES = ("load", "rollout", "log-probs", "values", "forward", "backward", "optimizer", "save")
Phase = Literal["load", "rollout", "log-probs", "values", "forward", "backward", "optimizer", "save"]


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one component of one role, on one device."""

    role: str  # as in `RolePlan`
    component: Component
    bytes: int
    equation: str  # for people: "494.0M x 2 bytes"
    shrunk_by: tuple[str, ...] = ()  # keys that lower it


@dataclass(frozen=True, slots=True)
class PhaseMemory:
    """What is held at the worst moment of a phase."""

    phase: Phase
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        """Their sum: what torch's allocator would count (`allocated`)."""
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One device over a whole step. Colocated roles share phases: they are not summed beyond what both hold at once.

    Attributes:
        outside: (least, most) bytes that the device shows beside `allocated`: context, libraries, what torch's
            allocator keeps unused.
        capacity: bytes of the device; None: not known.
        rows: sequences that generation holds at once.
        refused: why it cannot run whatever is left; empty where it can.
    """

    device: str
    phases: tuple[PhaseMemory, ...]
    outside: tuple[int, int]
    capacity: int | None
    rows: int = 0
    refused: str = ""

    @property
    def worst(self) -> PhaseMemory:
        """The phase that decides."""
        return max(self.phases, key=lambda phase: phase.bytes)

    @property
    def fits(self) -> bool | None:
        """None: nobody knows the device."""
        if self.refused:
            return False
        return None if self.capacity is None else self.worst.bytes + self.outside[1] <= self.capacity
