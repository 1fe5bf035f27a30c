"""The run directory: one run, its lock, config, manifest, metrics, events and checkpoints. Never shared by two runs."""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from verlcli.engine import checkpoint
from verlcli.errors import ConfigError

CONFIG, METRICS, EVENTS, MANIFEST, PLAN, ORIGINS = (
    "config.yaml",
    "metrics.jsonl",
    "events.jsonl",
    "manifest.json",
    "plan.json",
    "origins.json",
)
EARLY = {".lock", CONFIG, EVENTS, MANIFEST, PLAN, ORIGINS, METRICS, "logs"}  # before step 1
MAY_DIFFER = {  # keys that do not change what is learned up to a step; everything else makes it another run
    ("trainer", "total_steps"),
    ("trainer", "save_freq"),
    # How memory and time are spent; what is learned stays the same up to the order of sums.
    ("training", "recompute"),
    ("training", "compile"),
    ("training", "use_dynamic_bsz"),
    ("training", "max_token_len_per_gpu"),
    ("training", "ppo_micro_batch_size_per_gpu"),
    ("model", "enable_gradient_checkpointing"),
    ("model", "use_recompute"),
    ("rollout", "batch_size"),
    ("rollout", "gpu_memory_utilization"),
    ("rollout", "max_num_batched_tokens"),
    ("rollout", "max_num_seqs"),
    ("rollout", "cpu_offload"),
    ("rollout", "cpu_offload_ratio"),
    ("trainer", "test_freq"),
    ("trainer", "keep_checkpoints"),
    ("trainer", "output_dir"),
    ("trainer", "loggers"),
    ("trainer", "resume"),
}


@dataclass(slots=True)
class RunDirectory:
    """An open, locked run directory.

    Attributes:
        checkpoint: where to go on from, or None for a fresh start.
        planned_steps: `trainer.total_steps` of the attempt before, None for a fresh start.
        notices: for the user: what was found damaged or changed.
    """

    path: Path
    checkpoint: Path | None = None
    planned_steps: int | None = None
    notices: list[str] = field(default_factory=list)
    _lock: IO[str] | None = None

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Append one step's row to `metrics.jsonl`."""
        _append(self.path / METRICS, row)

    def event(self, kind: str, **data: Any) -> None:
        """Append one event (warning, skipped update, checkpoint, stop) with the time to `events.jsonl`."""
        _append(self.path / EVENTS, {"time": time.time(), "kind": kind, **data})

    def rows(self) -> list[dict[str, Any]]:
        """Rows of `metrics.jsonl`; a line cut off by a kill is left out."""
        return _read_lines(self.path / METRICS)

    def forget_after(self, step: int) -> None:
        """Drop metrics of steps that will be repeated."""
        kept = [row for row in self.rows() if row["step"] <= step]
        write_text(self.path / METRICS, "".join(_line(row) for row in kept))

    def write_json(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a JSON file of the run, atomically."""
        write_text(self.path / name, json.dumps(_finite(document), indent=2, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """A JSON file of the run, or {} when absent or cut off."""
        return _read_json(self.path / name)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def open_run(
    requested: Path, values: Mapping[str, Any], *, explicit: bool, resume: str | int, total_steps: int
) -> RunDirectory:
    """Create `requested`, or go on in it where a run of the same config was cut off.

    Args:
        requested: `trainer.output_dir`, or `runs/NAME`.
        values: the resolved config, as plain values.
        explicit: the user named the directory, so another one is never taken instead.
        resume: "auto", "never", or a checkpoint's step.
        total_steps: where the run will end; a run that reached it is finished.

    Raises:
        ConfigError: the directory is in use, holds something else or another run, cannot be written,
            or has no such checkpoint.
    """
    for candidate in _candidates(requested, explicit):
        run = _try_open(candidate, values, explicit=explicit, resume=resume, total_steps=total_steps)
        if run is not None:
            return run
    raise ConfigError(f"no free name after {requested}", where="trainer.output_dir", fix="give another --output-dir")


def _candidates(requested: Path, explicit: bool) -> list[Path]:
    if explicit:
        return [requested]
    return [requested, *(requested.with_name(f"{requested.name}-{i}") for i in range(2, 1000))]


def _try_open(
    path: Path, values: Mapping[str, Any], *, explicit: bool, resume: str | int, total_steps: int
) -> RunDirectory | None:
    """Open `path`, or None when it is taken and another name may be tried."""
    explicit = explicit or isinstance(resume, int)  # a step to resume from is never looked for elsewhere
    run = RunDirectory(path)
    try:
        # Before locking, so that no file is left in a directory that is not ours; after it, to be sure.
        _require_usable(path, values, resume=resume, total_steps=total_steps)
        run._lock = _lock(path)
        _require_usable(path, values, resume=resume, total_steps=total_steps)
        checkpoint.remove_partial(run.checkpoints)
        _find_checkpoint(run, resume)
        _end_last_line(path / EVENTS)
    except _TakenError:
        run.close()
        if explicit:
            raise
        return None
    except BaseException:
        run.close()
        raise
    return run


class _TakenError(ConfigError):
    """A directory that this run cannot have; another name may be tried."""


def _require_usable(path: Path, values: Mapping[str, Any], *, resume: str | int, total_steps: int) -> None:
    """Raise _TakenError when `path` holds something that this run may not go on in."""
    other = "give another --output-dir"
    if isinstance(resume, int) and not checkpoint.steps(path / "checkpoints"):
        raise ConfigError(
            f"cannot resume from step {resume}: there is no checkpoint here",
            where=str(path),
            fix="name the run with --output-dir, or leave out --resume",
        )
    if path.exists() and not path.is_dir():
        raise _TakenError("is a file, not a directory", where=str(path), fix=other)
    names = {entry.name for entry in path.iterdir()} if path.exists() else set()
    late = {name for name in names - EARLY if not (name.startswith(".") and name.endswith(".partial"))}
    if not late and not _read_lines(path / METRICS):
        return  # empty, or a start that failed before its first step
    old = _read_config(path)
    if old is None:
        raise _TakenError("holds files, but not a run", where=str(path), fix=other)
    if resume == "never":
        raise _TakenError(
            "already holds a run, and resume is 'never'", where=str(path), fix=f"{other}, or use --resume auto"
        )
    changed = differing_keys(old, values)
    if changed:
        shown = ", ".join(changed[:4]) + (", ..." if len(changed) > 4 else "")
        raise _TakenError(
            f"holds a run of another config (different: {shown})",
            where=str(path),
            fix=f"{other}, or restore these keys to go on with that run",
        )
    last = max(checkpoint.steps(path / "checkpoints"), default=0)
    if resume == "auto" and last >= total_steps and _read_json(path / MANIFEST).get("status") == "finished":
        raise _TakenError(
            f"holds a finished run of {last} steps",
            where=str(path),
            fix=f"raise trainer.total_steps above {last} to train on, or {other}",
        )


def differing_keys(old: object, new: object, at: tuple[str, ...] = ()) -> list[str]:
    """Dotted keys whose values differ between two resolved configs, those in MAY_DIFFER and `monitor` left out."""
    if at in MAY_DIFFER or at[:1] == ("monitor",):
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = sorted({*old, *new})
        return [d for key in keys for d in differing_keys(old.get(key), new.get(key), (*at, str(key)))]
    return [] if old == new else [".".join(at)]


def _find_checkpoint(run: RunDirectory, resume: str | int) -> None:
    """Set the checkpoint to go on from; newer ones are set aside, never deleted."""
    have = checkpoint.steps(run.checkpoints)
    if isinstance(resume, int):
        folder = run.checkpoints / f"step_{resume}"
        problem = checkpoint.damage(folder) if folder.is_dir() else "there is none"
        if problem is not None:
            shown = ", ".join(map(str, have))
            raise ConfigError(
                f"cannot resume from step {resume}: {problem}", where=str(run.path), fix=f"choose one of: {shown}"
            )
        run.checkpoint = folder
    else:
        run.checkpoint, complaints = checkpoint.newest_intact(run.checkpoints)
        if have and run.checkpoint is None:
            raise ConfigError(
                f"none of its {len(have)} checkpoints is intact; the newest: {complaints[0]}",
                where=str(run.path),
                fix="restore one from a backup, or start anew with another --output-dir",
            )
        run.notices.extend(f"{each}; going back to an older one" for each in complaints)
    if run.checkpoint is not None:
        run.planned_steps = (_read_config(run.path) or {}).get("trainer", {}).get("total_steps")
        checkpoint.set_aside(run.checkpoints, after=int(run.checkpoint.name.removeprefix("step_")))


def _lock(path: Path) -> IO[str]:
    """The lock file, held by this process. Also proves that we can write here."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        stream = (path / ".lock").open("a")
    except OSError as error:
        raise ConfigError(
            f"cannot write here: {error.strerror}", where=str(path), fix="choose a writable place with --output-dir"
        ) from error
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        stream.close()
        raise _TakenError(
            "another process is training in this directory",
            where=str(path),
            fix="wait for it, or give another --output-dir",
        ) from error
    except OSError as error:
        stream.close()
        raise ConfigError(
            f"this file system cannot lock files: {error.strerror}", where=str(path), fix="use a local disk"
        ) from error
    return stream


def _end_last_line(file: Path) -> None:
    """A kill may have cut the last line off: let the next one start on its own."""
    if file.is_file() and file.stat().st_size and not file.read_bytes().endswith(b"\n"):
        with file.open("a") as stream:
            stream.write("\n")


def _read_config(path: Path) -> Mapping[str, Any] | None:
    """The resolved config of the run in `path`, or None when there is no run."""
    from verlcli.config import load_document

    try:
        return dict(load_document(path / CONFIG).values)
    except ConfigError:
        return None


def write_text(file: Path, text: str) -> None:
    """Replace `file` with `text` in one step: a reader sees the old or the new, never half."""
    aside = file.with_name(f".{file.name}.partial")
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    aside.replace(file)


def _append(file: Path, row: Mapping[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(_line(row))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(_finite(row), ensure_ascii=False) + "\n"


def _read_lines(file: Path) -> list[dict[str, Any]]:
    rows = []
    if file.is_file():
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                continue
    return rows


def _read_json(file: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document


def _finite(value: Any) -> Any:
    """NaN and infinities as null: JSON has no word for them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def redacted(arguments: list[str] | None = None) -> list[str]:
    """The command line with the values of secret-looking keys blanked."""
    words = ("token", "secret", "password", "api_key", "apikey", "credential")
    out = []
    for argument in sys.argv if arguments is None else arguments:
        key, equals, _ = argument.partition("=")
        secret = equals and any(word in key.lower() for word in words) and "token_len" not in key.lower()
        out.append(f"{key}=***" if secret and not key.lower().endswith("tokens") else argument)
    return out
