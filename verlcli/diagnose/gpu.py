"""Probes of the GPUs: torch's CUDA build against the driver, and each card's memory and company."""

from __future__ import annotations

from verlcli.diagnose.finding import Finding
from verlcli.diagnose.nvml import DriverReading, GpuReading

GIB = 1024**3


def probe_cuda(reading: DriverReading, torch_installed: bool, torch_build: str | None) -> Finding:
    """The driver runs the CUDA that torch was built with (NVIDIA's rule: the same major version, or an older one)."""
    if reading.absent:
        build = f"torch is built for CUDA {torch_build}" if torch_build else "torch is a CPU build"
        return Finding("torch-cuda", "SKIP", f"{reading.absent}; {build}" if torch_installed else reading.absent)
    driver = f"driver {reading.driver_version} runs CUDA up to {_dotted(reading.cuda_version)}"
    if not torch_installed:
        return Finding("torch-cuda", "SKIP", f"{driver}; torch is not installed")
    if torch_build is None:
        return Finding(
            "torch-cuda",
            "WARN",
            f"{driver}; torch is a CPU build",
            why="this machine has a GPU, and torch cannot use it: training runs on the CPU",
            fix="pip install --force-reinstall a torch built for CUDA "
            f"{_dotted(reading.cuda_version)} or older of the same major version",
        )
    if reading.cuda_version and int(torch_build.split(".")[0]) > reading.cuda_version[0]:
        return Finding(
            "torch-cuda",
            "FAIL",
            f"{driver}; torch is built for CUDA {torch_build}",
            why="torch needs a newer driver: it will not see the GPU",
            fix=f"update the NVIDIA driver, or install a torch built for CUDA {reading.cuda_version[0]}",
        )
    return Finding("torch-cuda", "PASS", f"{driver}; torch is built for CUDA {torch_build}")


def probe_gpus(reading: DriverReading) -> tuple[Finding, ...]:
    """One finding a GPU, or one SKIP when there is none."""
    if not reading.gpus:
        return (Finding("gpu", "SKIP", reading.absent or "no GPU", why="training runs on the CPU"),)
    return tuple(_probe_gpu(gpu) for gpu in reading.gpus)


def _probe_gpu(gpu: GpuReading) -> Finding:
    used, total = gpu.used_bytes / GIB, gpu.total_bytes / GIB
    link = f", {gpu.pcie}" if gpu.pcie else ""
    evidence = f"{gpu.name}, {total:.1f} GiB, {used:.1f} GiB in use{link}"
    if gpu.process_ids:
        pids = ", ".join(map(str, gpu.process_ids))
        return Finding(
            f"gpu:{gpu.index}",
            "WARN",
            f"{evidence}; other processes on it: {pids}",
            why="they share its memory and its time: runs may not fit, and timings mean little",
            fix=f"look with ps -fp {pids.replace(' ', '')}; end them, or choose other cards with CUDA_VISIBLE_DEVICES",
        )
    if gpu.used_bytes > 0.1 * gpu.total_bytes:
        # Inside a container the processes of others are not visible, their memory is.
        return Finding(
            f"gpu:{gpu.index}",
            "WARN",
            evidence,
            why="someone this process cannot see holds part of its memory",
            fix="look with nvidia-smi on the host, or choose other cards with CUDA_VISIBLE_DEVICES",
        )
    return Finding(f"gpu:{gpu.index}", "PASS", evidence)


def _dotted(version: tuple[int, int] | None) -> str:
    return f"{version[0]}.{version[1]}" if version else "unknown"
