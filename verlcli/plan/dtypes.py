"""The number format of a role, with the reason: what was asked for, what the device computes, what can be trained."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.config.types import DType
from verlcli.plan.machine import Gpu, Machine
from verlcli.plan.types import Device, Note, Precision


@dataclass(frozen=True, slots=True)
class Choice:
    """A dtype, why it is that one, and what the user should know about it."""

    dtype: Precision
    reason: str
    notes: tuple[Note, ...] = ()


def choose_dtype(asked: DType, key: str, device: Device, machine: Machine) -> Choice:
    """Resolve `asked` (the value of `key`) on `device`. Both backends scale the loss where fp16 is trained."""
    if device == "cpu":
        return _on_cpu(asked, key, machine)
    # The slowest card decides for all of them.
    gpu = min(machine.gpus, key=lambda g: g.compute_capability, default=None)
    if asked == "auto":
        return _auto_on_gpu(gpu)
    name, bf16 = (gpu.name, gpu.bf16) if gpu else ("the GPU", True)
    if asked == "bf16" and not bf16:
        note = Note("warning", key, f"{name} has no bf16 units and emulates it slowly: set fp16")
        return Choice("bf16", f"{key}; emulated on {name}", (note,))
    return Choice(asked, key)


def _on_cpu(asked: DType, key: str, machine: Machine) -> Choice:
    if asked == "auto":
        bf16 = "exact; this CPU has bf16 instructions too" if machine.cpu_bf16 else "bf16 is emulated on this CPU"
        return Choice("fp32", bf16)
    if asked == "fp16":
        message = "fp16 has no use on a CPU: fp32 instead"
        return Choice("fp32", message, (Note("warning", key, message),))
    if asked == "bf16" and not machine.cpu_bf16:
        note = Note("warning", key, "bf16 is emulated on this CPU, slower than fp32: set fp32")
        return Choice("bf16", f"{key}; emulated on this CPU", (note,))
    return Choice(asked, key)


def _auto_on_gpu(gpu: Gpu | None) -> Choice:
    if gpu is None:
        return Choice("bf16", "no GPU here to ask; bf16 needs compute capability 8.0")
    if "RTX 4090" in gpu.name:
        # The published advice for this card, kept as its default although the card does bf16 as well.
        return Choice("fp16", f"advised for {gpu.name}, which computes bf16 natively too")
    if gpu.bf16:
        return Choice("bf16", f"{gpu.name} computes bf16 natively")
    return Choice("fp16", f"{gpu.name} has fp16 units and no bf16")
