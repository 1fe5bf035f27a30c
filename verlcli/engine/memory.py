"""Peak memory of this process."""

from __future__ import annotations

import resource
import sys

import torch

GIB = 2**30


class _Mapped:
    """GPU memory taken from the driver beside torch's allocator, and the largest sum of both until it last changed."""

    now = 0
    peak = 0


def count_mapped(change: int) -> None:
    """`change` bytes of GPU memory were taken beside torch's allocator (or given back); its own peak starts anew."""
    _Mapped.peak = _peak_bytes()
    for i in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(i)
    _Mapped.now += change


def peak_memory_gib(device: str) -> float:
    """ "cuda": the peak of allocated bytes, over all devices; "cpu": the process's peak resident size."""
    if device == "cuda" and torch.cuda.is_initialized():
        return _peak_bytes() / GIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / GIB


def _peak_bytes() -> int:
    own = sum(torch.cuda.max_memory_allocated(i) for i in range(torch.cuda.device_count()))
    return max(_Mapped.peak, own + _Mapped.now)
