"""Probes of the host: cores, memory and its limits, shared memory, disk, open files, the Hugging Face cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from verlcli.diagnose.finding import Finding

GIB = 1024**3
LOW_MEMORY_BYTES = 4 * GIB
LOW_SHM_BYTES = GIB
LOW_DISK_BYTES, FULL_DISK_BYTES = 10 * GIB, GIB
LOW_OPEN_FILES = 1024


def probe_cpu() -> Finding:
    """Cores this process may use, of those the machine has."""
    total = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else total
    return Finding("cpu", "PASS", f"{usable} of {total} logical cores usable")


def probe_memory(available_bytes: int, total_bytes: int) -> Finding:
    """Enough free main memory for a small model and its optimizer."""
    evidence = f"{available_bytes / GIB:.1f} of {total_bytes / GIB:.1f} GiB available"
    if available_bytes >= LOW_MEMORY_BYTES:
        return Finding("memory", "PASS", evidence)
    return Finding(
        "memory",
        "WARN",
        evidence,
        why="loading torch and a model of a few hundred million parameters takes about 4 GiB",
        fix="end other programs, or choose a smaller model",
    )


def cgroup_memory_limit(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> int | None:
    """Smallest memory limit in bytes on this process by its control groups (v1 or v2), or None without one."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    limits = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            limits += _limits(root, place, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits(root / "memory", place, "memory.limit_in_bytes")
    return min(limits, default=None)


def _limits(base: Path, place: str, name: str) -> list[int]:
    # Every ancestor's limit holds too (a Slurm job's, a pod's); inside a container only `base` may be visible.
    group = base / place.lstrip("/")
    folders = [group, *(parent for parent in group.parents if parent.is_relative_to(base))]
    texts = [(folder / name).read_text(encoding="ascii").strip() for folder in folders if (folder / name).is_file()]
    # v1 writes "no limit" as a number near 2**63, v2 as "max".
    return [int(text) for text in texts if text.isdigit() and int(text) < 2**60]


def probe_cgroup(limit_bytes: int | None, total_bytes: int) -> Finding:
    """A container's limit below the machine's memory is what a run really has."""
    if limit_bytes is None or limit_bytes >= total_bytes:
        return Finding("memory-limit", "PASS", "no container limit below the machine's memory")
    evidence = f"this container may use {limit_bytes / GIB:.1f} of the machine's {total_bytes / GIB:.1f} GiB"
    if limit_bytes >= LOW_MEMORY_BYTES:
        return Finding("memory-limit", "PASS", evidence)
    return Finding(
        "memory-limit",
        "WARN",
        evidence,
        why="the kernel kills a run that goes over it, without a message",
        fix="start the container with more memory (docker run --memory=8g)",
    )


def probe_shared_memory(path: Path = Path("/dev/shm")) -> Finding:
    """`/dev/shm` carries tensors between processes (data workers, NCCL, Ray)."""
    if not path.is_dir():
        return Finding("shared-memory", "SKIP", f"{path} does not exist on this system")
    usage = shutil.disk_usage(path)
    evidence = f"{path}: {usage.free / GIB:.1f} of {usage.total / GIB:.1f} GiB free"
    if usage.free >= LOW_SHM_BYTES:
        return Finding("shared-memory", "PASS", evidence)
    return Finding(
        "shared-memory",
        "WARN",
        evidence,
        why="several processes that exchange tensors fail with a bus error; one process is not affected",
        fix="docker run --shm-size=16g, or mount -o remount,size=16G /dev/shm",
    )


def probe_disk(folder: Path) -> Finding:
    """Room and permission for run directories under the current folder."""
    free = shutil.disk_usage(folder).free
    evidence = f"{free / GIB:.1f} GiB free at {folder}"
    if not os.access(folder, os.W_OK):
        return Finding(
            "disk",
            "FAIL",
            f"{folder} is not writable",
            why="a run writes its directory under runs/ here",
            fix="change to a writable folder, or set trainer.output_dir",
        )
    if free >= LOW_DISK_BYTES:
        return Finding("disk", "PASS", evidence)
    return Finding(
        "disk",
        "FAIL" if free < FULL_DISK_BYTES else "WARN",
        evidence,
        why="a checkpoint holds the weights and the optimizer: up to 16 bytes a trained parameter",
        fix="free some space, set trainer.output_dir to a larger disk, or lower trainer.keep_checkpoints",
    )


def probe_open_files() -> Finding:
    """The soft limit on open files suffices for data workers and Ray."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return Finding("open-files", "SKIP", "this system has no such limit")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= LOW_OPEN_FILES:
        return Finding("open-files", "PASS", "no limit" if soft == resource.RLIM_INFINITY else f"limit {soft}")
    return Finding(
        "open-files",
        "WARN",
        f"limit {soft} (hard limit {hard})",
        why="many data workers or Ray run out of file handles",
        fix=f"ulimit -n {hard if 0 < hard < 65536 else 65536}",
    )


def hub_cache() -> Path:
    """Folder where huggingface_hub keeps downloaded models, by its own environment variables."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    home = os.environ.get("HF_HOME") or str(Path(base) / "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def probe_hub_cache() -> Finding:
    """Models already downloaded, and whether more may be."""
    folder = hub_cache()
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    count = sum(1 for _ in folder.glob("models--*")) if folder.is_dir() else 0
    evidence = f"{folder}: {count} model{'' if count == 1 else 's'}{', offline mode' if offline else ''}"
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    if os.access(parent, os.W_OK):
        return Finding("hub-cache", "PASS", evidence)
    return Finding(
        "hub-cache",
        "WARN",
        f"{evidence}; not writable",
        why="a model named by its hub id cannot be downloaded",
        fix="set HF_HOME to a writable folder",
    )
