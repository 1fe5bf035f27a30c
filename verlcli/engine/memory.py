"""Peak memory of this process."""

from __future__ import annotations

import resource
import sys

import torch

GIB = 2**30


def peak_memory_gib(device: str) -> float:
    """ "cuda": torch's peak of allocated bytes, over all devices; "cpu": the process's peak resident size."""
    if device == "cuda" and torch.cuda.is_initialized():
        return sum(torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count())) / GIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / GIB
