"""Learning rate as a pure function of the step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verlcli.config.types import OptimConfig


def learning_rate(optim: OptimConfig, step: int, total_steps: int) -> float:
    """Learning rate of 1-based `step`: linear warm-up over `warmup_steps`, then constant, or decay to 0 at the end."""
    if step <= optim.warmup_steps:
        return optim.lr * step / optim.warmup_steps
    done = (step - 1 - optim.warmup_steps) / max(1, total_steps - optim.warmup_steps)
    if optim.lr_scheduler == "linear":
        return optim.lr * (1 - done)
    if optim.lr_scheduler == "cosine":
        return optim.lr * (1 + math.cos(math.pi * done)) / 2
    return optim.lr
