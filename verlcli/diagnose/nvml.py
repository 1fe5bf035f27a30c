"""What the NVIDIA driver says about itself and its GPUs, read once for all probes; no torch, no CUDA context."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU; sizes in bytes. `process_ids` are the compute processes on it that are not this one."""

    index: int
    name: str
    total_bytes: int
    used_bytes: int
    process_ids: tuple[int, ...]
    pcie: str | None  # the best link card and slot allow, "PCIe 5.0 x16"; None when the driver does not tell


@dataclass(frozen=True, slots=True)
class DriverReading:
    """The driver, the newest CUDA (major, minor) it runs, and its GPUs; `absent` says why there are none."""

    driver_version: str | None = None
    cuda_version: tuple[int, int] | None = None
    gpus: tuple[GpuReading, ...] = ()
    absent: str | None = None


def read_driver() -> DriverReading:
    """Ask NVML; a machine without a driver gives an empty reading with the reason."""
    try:
        import pynvml
    except ImportError:
        return DriverReading(absent="the package nvidia-ml-py is not installed")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return DriverReading(absent=f"no NVIDIA driver ({error})")
    try:
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        gpus = tuple(_read_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
        return DriverReading(
            driver_version=str(pynvml.nvmlSystemGetDriverVersion()),
            cuda_version=(cuda // 1000, cuda % 1000 // 10),
            gpus=gpus,
            absent=None if gpus else "the NVIDIA driver sees no GPU",
        )
    except pynvml.NVMLError as error:
        return DriverReading(absent=f"the NVIDIA driver does not answer ({error})")
    finally:
        pynvml.nvmlShutdown()


def _read_gpu(pynvml: Any, index: int) -> GpuReading:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return GpuReading(
        index=index,
        name=str(pynvml.nvmlDeviceGetName(handle)),
        total_bytes=int(memory.total),
        used_bytes=int(memory.used),
        process_ids=_foreign_processes(pynvml, handle),
        pcie=_pcie_link(pynvml, handle),
    )


def _foreign_processes(pynvml: Any, handle: Any) -> tuple[int, ...]:
    try:
        running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:  # not permitted in some containers
        return ()
    return tuple(sorted(process.pid for process in running if process.pid != os.getpid()))


def _pcie_link(pynvml: Any, handle: Any) -> str | None:
    # The widest link card and slot agree on: the current one drops while the card is idle.
    try:
        generation = pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)
        width = pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)
    except pynvml.NVMLError:
        return None
    return f"PCIe {generation}.0 x{width}"
