"""The manifest: what ran, with what, where, and how it ended. No secrets: no environment, redacted arguments."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verlcli.engine.run_directory import MANIFEST, RunDirectory, redacted

if TYPE_CHECKING:
    from verlcli.config.types import Config
    from verlcli.plan.types import Plan

PACKAGES = ("verlcli", "torch", "transformers", "peft", "safetensors", "pyarrow", "numpy", "vllm", "flash-attn")
FINGERPRINT_BYTES = 64 << 20  # a file's head; with its size that tells two files apart in practice


class Manifest:
    """Writes `manifest.json` before the first step and amends it at the end of every attempt."""

    def __init__(self, run: RunDirectory, config: Config, plan: Plan, *, from_step: int) -> None:
        self._run = run
        previous = run.read_json(MANIFEST)
        fingerprints = _fingerprints(config)
        if from_step:
            before = previous.get("fingerprints", {})
            changed = sorted(name for name, value in fingerprints.items() if before.get(name, value) != value)
            run.notices.extend(f"{name} has changed since this run began" for name in changed)
        self._attempt: dict[str, Any] = {
            "started": time.time(),
            "from_step": from_step,
            "pid": os.getpid(),
            "host": platform.node(),
            "argv": redacted(),
            "ended": None,
            "exit_code": None,
            "last_step": from_step,
        }
        self._document: dict[str, Any] = {
            "schema_version": 1,
            "status": "running",
            "name": plan.name,
            "versions": {"python": platform.python_version(), **_versions()},
            "devices": _devices(plan),
            "git": _git(),
            "seeds": {"trainer": config.trainer.seed, "data": config.data.seed},
            "fingerprints": fingerprints,
            "peak_memory_gib": {"predicted": None, "measured": None},
            "attempts": [*previous.get("attempts", []), self._attempt],
        }
        self.write()

    def write(self) -> None:
        self._run.write_json(MANIFEST, self._document)

    def finish(self, *, status: str, exit_code: int, last_step: int, peak_memory_gib: float, error: str | None) -> None:
        """Record how this attempt ended: status finished, interrupted or failed."""
        self._attempt |= {"ended": time.time(), "exit_code": exit_code, "last_step": last_step, "error": error}
        self._document["status"] = status
        self._document["peak_memory_gib"]["measured"] = round(peak_memory_gib, 4)
        self.write()


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def _devices(plan: Plan) -> list[str]:
    import torch

    if plan.device == "cuda":
        return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [f"cpu, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"]


def _git() -> dict[str, Any] | None:
    """Commit of the working directory, and whether it was dirty."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=True)
        dirty = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit.stdout.strip(), "dirty": bool(dirty.stdout.strip())}


def _fingerprints(config: Config) -> dict[str, str]:
    """Data, reward and model files that are on this disk; a hub model's revision is its own record."""
    from verlcli.engine.models import locate

    files = [Path(file) for file in (*config.data.train_files, *config.data.val_files)]
    files += [Path(spec.rpartition(":")[0] or spec) for spec in config.reward.function if ".py" in spec]
    for key in ("model", "critic", "reference", "reward_model"):
        name = getattr(config, key).path
        path = None if name is None else locate(name, key=f"{key}.path").path
        if path is not None:
            files += (
                [path] if path.is_file() else [*path.glob("*.safetensors"), *path.glob("*.bin"), path / "config.json"]
            )
    return {str(file): fingerprint(file) for file in sorted(set(files)) if file.is_file()}


def fingerprint(file: Path) -> str:
    """`size:sha256` of a file's first 64 MiB."""
    with file.open("rb") as stream:
        return f"{file.stat().st_size}:{hashlib.sha256(stream.read(FINGERPRINT_BYTES)).hexdigest()}"
