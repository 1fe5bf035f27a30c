"""What this machine has, for the planner: GPUs through NVML and CPU cores; no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from verlcli.errors import ConfigError
from verlcli.facts import Cluster
from verlcli.facts.gpus import GpuModel, find_gpu


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA GPU that CUDA shows to this process."""

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]

    @property
    def bf16(self) -> bool:
        """True when the card computes bf16 natively: compute capability 8.0 (Ampere) or newer."""
        return self.compute_capability >= (8, 0)

    @property
    def model(self) -> GpuModel | None:
        """Its published figures; None for a card that the table lacks."""
        try:
            return find_gpu(self.name)
        except ConfigError:
            return None


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs in CUDA's order, so that `gpus[1]` is `cuda:1`."""

    gpus: tuple[Gpu, ...]
    cpu_cores: int
    cpu_bf16: bool  # the CPU has bf16 instructions
    torch_cuda: bool  # the installed torch can use GPUs


def this_machine(env: Mapping[str, str] | None = None) -> Machine:
    """Read the machine this process runs on. Without a driver or NVML it has no GPUs."""
    visible = (os.environ if env is None else env).get("CUDA_VISIBLE_DEVICES")
    return Machine(
        gpus=_gpus(visible),
        cpu_cores=_cpu_cores(),
        cpu_bf16=_cpu_bf16(),
        torch_cuda=_torch_cuda(),
    )


def machine_of(cluster: Cluster) -> Machine:
    """One node of `cluster` as a machine; what its torch can do is not known and taken to be all."""
    gpu = cluster.gpu
    # AMD counts otherwise; its matrix units compute what NVIDIA's of 9.0 do.
    gpus = () if gpu is None else (Gpu(gpu.name, int(gpu.memory_gib * 2**30), gpu.compute_capability or (9, 0)),)
    return Machine(gpus * cluster.gpus_per_node, cluster.cpus or _cpu_cores(), cpu_bf16=False, torch_cuda=True)


def visible_indices(visible: str | None, uuids: Sequence[str]) -> list[int]:
    """Indices that `CUDA_VISIBLE_DEVICES` leaves, in its order; None: all. A bad entry ends the list."""
    if visible is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in (part.strip() for part in visible.split(",")):
        if entry.isdecimal() and int(entry) < len(uuids):
            index = int(entry)
        else:
            matches = [i for i, uuid in enumerate(uuids) if entry.startswith("GPU-") and uuid.startswith(entry)]
            if len(matches) != 1:
                break
            index = matches[0]
        chosen.append(index)
    return chosen


def _gpus(visible: str | None) -> tuple[Gpu, ...]:
    try:
        import pynvml
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        uuids = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        return tuple(_gpu(handles[i]) for i in visible_indices(visible, uuids))
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _gpu(handle: object) -> Gpu:
    import pynvml

    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        name=_text(pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        compute_capability=(int(major), int(minor)),
    )


def _text(value: str | bytes) -> str:
    # Older NVML bindings answer in bytes.
    return value.decode() if isinstance(value, bytes) else value


def _cpu_cores() -> int:
    # Affinity knows of taskset and container pinning; macOS and Windows do not have it.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_bf16() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "avx512_bf16" in text or "amx_bf16" in text


def _torch_cuda() -> bool:
    # The local version tells the build (2.13.0+cpu) without the seconds that importing torch takes.
    try:
        return not metadata.version("torch").endswith("+cpu")
    except metadata.PackageNotFoundError:
        return False
