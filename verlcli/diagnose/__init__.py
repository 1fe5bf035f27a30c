"""Is this machine ready? One probe a function, each giving a graded `Finding`; torch is never imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.diagnose import gpu, host, inputs, packages
from verlcli.diagnose.finding import Finding, Status, report
from verlcli.diagnose.nvml import read_driver
from verlcli.diagnose.optional import OPTIONAL, get_available_backends, probe_optional

if TYPE_CHECKING:
    from verlcli.config import Loaded

__all__ = ["Finding", "Status", "get_available_backends", "report", "run_probes"]


def run_probes(loaded: Loaded | None = None) -> tuple[Finding, ...]:
    """All probes of this machine, and with a config those of its models, data, packages and plan too."""
    config = loaded.config if loaded else None
    reading = read_driver()
    build = packages.torch_cuda_build()
    has_gpu = bool(reading.gpus)
    found = (
        packages.probe_python(),
        packages.probe_requirement("torch"),
        packages.probe_requirement("transformers"),
        gpu.probe_cuda(reading, packages.is_installed("torch"), build),
        *gpu.probe_gpus(reading),
        *(probe_optional(package, has_gpu=has_gpu, config=config) for package in OPTIONAL),
        *_probe_host(),
    )
    return (*found, *inputs.probe_inputs(loaded.config), inputs.probe_plan(loaded)) if loaded else found


def _probe_host() -> tuple[Finding, ...]:
    import psutil

    memory = psutil.virtual_memory()
    return (
        host.probe_cpu(),
        host.probe_memory(memory.available, memory.total),
        host.probe_cgroup(host.cgroup_memory_limit(), memory.total),
        host.probe_shared_memory(),
        host.probe_disk(Path.cwd()),
        host.probe_open_files(),
        host.probe_hub_cache(),
    )
