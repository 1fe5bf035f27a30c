"""What stopped a run, as its user should read it: signals, memory, disk."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import torch

from verlcli.errors import DoesNotFitError, InterruptedRunError, TrainingFailedError

STORAGE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG}


def explain(error: BaseException, run_dir: Path, step: int) -> BaseException:
    """The error as a user should read it."""
    if isinstance(error, KeyboardInterrupt):
        return InterruptedRunError(
            f"stopped at once, {f'after step {step}' if step else 'before a step was finished'}",
            where=str(run_dir),
            fix="run the same command again" + (" to go on from the last checkpoint" if step else ""),
        )
    if isinstance(error, torch.OutOfMemoryError):
        return DoesNotFitError(
            f"out of memory in step {step + 1}: {str(error).splitlines()[0]}",
            where=str(run_dir),
            fix="lower training.max_token_len_per_gpu, training.ppo_micro_batch_size_per_gpu or rollout.batch_size, "
            "set training.recompute: full or actor.optim.master_dtype: bf16, or use LoRA (model.lora_rank); "
            "checkpoints are kept",
        )
    code = _errno(error)
    named = getattr(error, "filename", None)
    if code in STORAGE_ERRORS and (named is None or Path(named).is_relative_to(run_dir)):
        return TrainingFailedError(
            f"cannot write the run's files: {os.strerror(code)} ({named or run_dir}); earlier checkpoints are whole",
            where=f"step {step}",
            fix="free space or mend the permissions, then run the same command again; "
            "trainer.keep_checkpoints says how many stay",
        )
    return error


def _errno(error: BaseException) -> int:
    """The system's error number, 0 if none; safetensors gives it in its text only."""
    if isinstance(error, OSError):
        return error.errno or 0
    found = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return int(found.group(1)) if found else 0
