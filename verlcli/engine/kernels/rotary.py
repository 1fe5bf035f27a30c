"""Rotary embedding of queries and keys in one kernel; it rounds where the layer in torch rounds."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _rotate(
    q,
    k,
    q_out,
    k_out,
    cos,
    sin,
    heads,
    length,
    q_b,
    q_h,
    q_t,
    k_b,
    k_h,
    k_t,
    qo_b,
    qo_h,
    qo_t,
    ko_b,
    ko_h,
    ko_t,
    c_b,
    c_t,
    BACKWARD: tl.constexpr,
    HALF: tl.constexpr,
    HALF_PAD: tl.constexpr,
):
    token, head = tl.program_id(0), tl.program_id(1)
    b, t = (token // length).to(tl.int64), (token % length).to(tl.int64)
    i = tl.arange(0, HALF_PAD)
    on = i < HALF
    if head < heads:
        base = q + b * q_b + head * q_h + t * q_t
        to = q_out + b * qo_b + head * qo_h + t * qo_t
    else:
        base = k + b * k_b + (head - heads) * k_h + t * k_t
        to = k_out + b * ko_b + (head - heads) * ko_h + t * ko_t
    at = b * c_b + t * c_t
    low = tl.load(base + i, mask=on, other=0.0).to(tl.float32)
    high = tl.load(base + HALF + i, mask=on, other=0.0).to(tl.float32)
    c0 = tl.load(cos + at + i, mask=on, other=0.0).to(tl.float32)
    c1 = tl.load(cos + at + HALF + i, mask=on, other=0.0).to(tl.float32)
    s0 = tl.load(sin + at + i, mask=on, other=0.0).to(tl.float32)
    s1 = tl.load(sin + at + HALF + i, mask=on, other=0.0).to(tl.float32)
    if BACKWARD:  # the transposed rotation
        s0, s1 = -s1, -s0
    # Products rounded as the layer itself does.
    dtype: tl.constexpr = q.dtype.element_ty
    first = (low * c0).to(dtype).to(tl.float32) - (high * s0).to(dtype).to(tl.float32)
    second = (high * c1).to(dtype).to(tl.float32) + (low * s1).to(dtype).to(tl.float32)
    tl.store(to + i, first.to(dtype), mask=on)
    tl.store(to + HALF + i, second.to(dtype), mask=on)


def _rotated(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, out: tuple[Tensor, Tensor], *, backward: bool
) -> None:
    batch, heads, length, width = query.shape
    strides = [each.stride(axis) for each in (query, key, *out) for axis in range(3)]
    _rotate[(batch * length, heads + key.shape[1])](
        query,
        key,
        *out,
        cos,
        sin,
        heads,
        length,
        *strides,
        cos.stride(0) if cos.shape[0] > 1 else 0,
        cos.stride(1),
        BACKWARD=backward,
        HALF=width // 2,
        HALF_PAD=triton.next_power_of_2(width // 2),
        num_warps=1,
    )


def _like(x: Tensor) -> Tensor:
    """`[B, H, T, D]`, laid out as `[B, T, H, D]`, which packed attention reads."""
    batch, heads, length, width = x.shape
    return torch.empty(batch, length, heads, width, dtype=x.dtype, device=x.device).transpose(1, 2)


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(cos, sin)
        out = _like(query), _like(key)
        _rotated(query, key, cos, sin, out, backward=False)
        return out

    @staticmethod
    def backward(ctx: Any, grad_q: Tensor, grad_k: Tensor) -> tuple[Tensor, Tensor, None, None]:
        out = _like(grad_q), _like(grad_k)
        rows = [grad if grad.stride(-1) == 1 else grad.contiguous() for grad in (grad_q, grad_k)]
        cos, sin = ctx.saved_tensors
        _rotated(rows[0], rows[1], cos, sin, out, backward=True)
        return *out, None, None


def rotate(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Rotary embedding of `query[B, H, T, D]`, `key[B, Hkv, T, D]`; `cos`, `sin` `[B or 1, T, D]`
    (arXiv:2104.09864, halves rotated as in GPT-NeoX). In place where no gradients are recorded and no two numbers of a
    tensor share a place."""
    query, key = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key))
    if cos.stride() != sin.stride() or cos.stride(-1) != 1:
        cos, sin = cos.contiguous(), sin.contiguous()
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad):
        out: tuple[Tensor, Tensor] = _Rotate.apply(query, key, cos, sin)  # type: ignore[no-untyped-call]
        return out
    to = (query, key) if 0 not in (*query.stride(), *key.stride()) else (_like(query), _like(key))
    _rotated(query, key, cos, sin, to, backward=False)
    return to
