"""Packed attention without a packed kernel: on CPUs, and on GPUs in fp32."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

MOST_PADDING = 0.25  # of a bucket's longest sequence that its shortest may lack


@torch.compiler.disable  # type: ignore[untyped-decorator]  # sizes depend on data
def bucketed_attention(q: Tensor, k: Tensor, v: Tensor, cu_seqlens: Tensor, scale: float, window: int | None) -> Tensor:
    """Causal attention `[T, H, D]` of `q[T, H, D]` and `k`, `v` `[T, Hkv, D]` within each sequence.

    Sequences of about one length stand side by side, padded on the right, for torch's own dense attention.

    A padded key stands after every real query, so that a causal mask already hides it.
    """
    buckets, places = _plan_buckets(_numbers(cu_seqlens), q.device)
    rows = sum(count * length for count, length in buckets)
    heads = q.shape[1]
    padded = [x if places is None else _pad(x, places, rows) for x in (q, k, v)]
    outs = []
    parts = zip(buckets, *(x.split([count * length for count, length in buckets]) for x in padded), strict=True)
    for (count, length), *part in parts:
        q_b, k_b, v_b = (x.unflatten(0, (count, length)).transpose(1, 2) for x in part)
        if k_b.shape[1] != heads:
            k_b, v_b = (x.repeat_interleave(heads // x.shape[1], 1) for x in (k_b, v_b))
        mask = None if window is None or window >= length else _band(length, window, q.device)
        out = scaled_dot_product_attention(q_b, k_b, v_b, attn_mask=mask, is_causal=mask is None, scale=scale)
        outs.append(out.transpose(1, 2).flatten(0, 1))
    flat = outs[0] if len(outs) == 1 else torch.cat(outs)
    return flat if places is None else _unpad(flat, places)


_latest: tuple[Tensor, tuple[int, ...]] | None = None  # the tensor itself, which no other can then be taken for


def _numbers(cu_seqlens: Tensor) -> tuple[int, ...]:
    """Waits for the device once a pass, whose layers all get the same tensor."""
    global _latest
    if _latest is None or _latest[0] is not cu_seqlens:
        _latest = (cu_seqlens, tuple(cu_seqlens.tolist()))
    return _latest[1]


def _band(length: int, window: int, device: torch.device) -> Tensor:
    """True where a query `[L, 1]` sees a key `[1, L]`: itself and the `window - 1` tokens before."""
    distance = torch.arange(length, device=device)[:, None] - torch.arange(length, device=device)
    return (distance >= 0) & (distance < window)


@lru_cache(maxsize=16)
def _plan_buckets(bounds: tuple[int, ...], device: torch.device) -> tuple[list[tuple[int, int]], Tensor | None]:
    """((sequences, padded length) of each bucket, where each of T tokens goes; None: where it is already)."""
    lengths = [stop - start for start, stop in pairwise(bounds)]
    order = sorted((i for i, n in enumerate(lengths) if n), key=lambda i: -lengths[i])
    buckets: list[tuple[int, int]] = []
    starts = [0] * len(lengths)
    at = 0
    for i in order:
        if not buckets or lengths[i] < (1 - MOST_PADDING) * buckets[-1][1]:
            buckets.append((0, lengths[i]))
        count, length = buckets[-1]
        buckets[-1] = (count + 1, length)
        starts[i] = at
        at += length
    if at == bounds[-1] and order == sorted(order):
        return buckets, None
    places = torch.cat([torch.arange(start, start + n) for start, n in zip(starts, lengths, strict=True)])
    return buckets, places.to(device)


def _pad(rows: Tensor, places: Tensor, size: int) -> Tensor:
    """`rows[T, ...]` to their places among `size` rows, the others 0."""
    out: Tensor = _Pad.apply(rows, places, size)  # type: ignore[no-untyped-call]
    return out


class _Pad(torch.autograd.Function):
    """Both ways are copies, where plain indexing's backward pass would sum."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(places)
        return rows.new_zeros(size, *rows.shape[1:]).index_copy_(0, places, rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.index_select(0, ctx.saved_tensors[0]), None, None


def _unpad(rows: Tensor, places: Tensor) -> Tensor:
    """The inverse of `_pad`."""
    out: Tensor = _Unpad.apply(rows, places)  # type: ignore[no-untyped-call]
    return out


class _Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, places: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.size = rows.shape[0]
        return rows.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        places = ctx.saved_tensors[0]
        return gradient.new_zeros(ctx.size, *gradient.shape[1:]).index_copy_(0, places, gradient), None
