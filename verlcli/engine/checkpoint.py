"""Checkpoints: written aside, checksummed, then renamed, so that a killed run never leaves half of one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHECKSUMS = "checksums.json"
STATE = "state.json"
_STEP = re.compile(r"step_(\d+)")


def save_checkpoint(root: Path, step: int, write: Callable[[Path], None], *, keep: int | None) -> Path:
    """Write `root/step_N` with `write(folder)`, then drop all but the newest `keep`.

    Raises:
        OSError: from the file system; nothing half-written is left under the final name.
    """
    final, aside = root / f"step_{step}", root / f".step_{step}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        write(aside)
        sums = {name: _sha256(aside / name) for name in _files(aside)}
        (aside / CHECKSUMS).write_text(json.dumps(sums, indent=1, sort_keys=True))
        for path in (*aside.rglob("*"), aside):
            _sync(path)
        if final.exists():  # the step was repeated because this one was found damaged
            shutil.rmtree(final)
        aside.rename(final)
        _sync(root)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if keep is not None:
        for old in [each for each in steps(root) if each <= step][:-keep]:
            shutil.rmtree(root / f"step_{old}", ignore_errors=True)
    return final


def steps(root: Path) -> list[int]:
    """Steps that have a checkpoint under `root`, ascending."""
    if not root.is_dir():
        return []
    return sorted(int(m.group(1)) for entry in root.iterdir() if (m := _STEP.fullmatch(entry.name)))


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None when every file has its checksum."""
    try:
        sums: dict[str, str] = json.loads((folder / CHECKSUMS).read_text())
    except (OSError, ValueError) as error:
        return f"{CHECKSUMS} cannot be read: {error}"
    for name, expected in sums.items():
        file = folder / name
        if not file.is_file():
            return f"{name} is missing"
        if _sha256(file) != expected:
            return f"{name} does not match its checksum"
    return None


def newest_intact(root: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that verifies, and one message for each newer one that does not."""
    complaints: list[str] = []
    for step in reversed(steps(root)):
        problem = damage(root / f"step_{step}")
        if problem is None:
            return root / f"step_{step}", complaints
        complaints.append(f"checkpoint step_{step} is damaged ({problem})")
    return None, complaints


def set_aside(root: Path, *, after: int) -> None:
    """Rename checkpoints beyond step `after` to `abandoned_step_N`: the run goes on from before them."""
    for step in steps(root):
        if step > after:
            shutil.rmtree(root / f"abandoned_step_{step}", ignore_errors=True)
            (root / f"step_{step}").rename(root / f"abandoned_step_{step}")


def remove_partial(root: Path) -> None:
    """Remove what a killed run left aside."""
    for entry in root.glob(".step_*.partial") if root.is_dir() else ():
        shutil.rmtree(entry, ignore_errors=True)


def read_state(folder: Path) -> dict[str, Any]:
    """The scalar state saved beside the tensors."""
    state: dict[str, Any] = json.loads((folder / STATE).read_text())
    return state


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Inverse of `read_state`. Floats keep all their bits: JSON writes the shortest text that reads back equal."""
    (folder / STATE).write_text(json.dumps(state, indent=1, sort_keys=True))


def _files(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        digest = hashlib.sha256()
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
        return digest.hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
