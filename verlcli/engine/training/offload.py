"""Inputs of recomputed blocks in pinned host memory between the forward and the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


@contextmanager
def offloaded_inputs() -> Iterator[None]:
    """Within: tensors on a GPU that autograd saves move to the host, on a stream of their own, and back when used.

    Meant around `torch.utils.checkpoint.checkpoint`, which saves its inputs alone.
    """
    with torch.autograd.graph.saved_tensors_hooks(_to_host, _to_device):
        yield


def _to_host(tensor: Tensor) -> Any:
    if tensor.device.type != "cuda":
        return tensor
    side = _stream(tensor.device)
    side.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(side):
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
    tensor.record_stream(side)  # its memory is taken again only after the copy
    return tensor.device, host


def _to_device(saved: Any) -> Tensor:
    if isinstance(saved, Tensor):
        return saved
    device, host = saved
    side, current = _stream(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(side):  # which also did the copy to the host, so that this one comes after it
        tensor: Tensor = host.to(device, non_blocking=True)
    current.wait_stream(side)
    tensor.record_stream(current)
    return tensor


@lru_cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
