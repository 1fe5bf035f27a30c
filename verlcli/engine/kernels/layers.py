"""Small layers of a decoder, one kernel each, forward only; they round where the layers in torch round."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _rms_norm(x, weight, out, eps, width, x_row, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    on = i < width
    value = tl.load(x + row * x_row + i, mask=on, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 0) / width + eps)
    normed = (value * scale).to(x.dtype.element_ty).to(tl.float32)
    gain = tl.load(weight + i, mask=on, other=0.0).to(tl.float32)
    tl.store(out + row * width + i, (normed * gain).to(out.dtype.element_ty), mask=on)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x[..., H]` -> weight * x / sqrt(mean(x^2) + eps), in one kernel (arXiv:1910.07467)."""
    flat = x.reshape(-1, x.shape[-1])
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    width = x.shape[-1]
    _rms_norm[(flat.shape[0],)](
        flat, weight, out, eps, width, flat.stride(0), BLOCK=triton.next_power_of_2(width), num_warps=4
    )
    return out


@triton.jit
def _silu_mul(gate, up, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = i < n
    g = tl.load(gate + i, mask=on, other=0.0).to(tl.float32)
    u = tl.load(up + i, mask=on, other=0.0).to(tl.float32)
    # Rounded between the two as the layer itself does: the rollout's log-probs stay close to the trainer's.
    silu = (g / (1.0 + tl.exp(-g))).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + i, (silu * u).to(out.dtype.element_ty), mask=on)


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, elementwise on contiguous tensors (SwiGLU, arXiv:2002.05202)."""
    out = torch.empty_like(gate)
    _silu_mul[(triton.cdiv(gate.numel(), 1024),)](gate, up, out, gate.numel(), BLOCK=1024, num_warps=4)
    return out


@triton.jit
def _rotate(
    q,
    k,
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
    c_b,
    c_t,
    HALF: tl.constexpr,
    HALF_PAD: tl.constexpr,
):
    token, head = tl.program_id(0), tl.program_id(1)
    b, t = token // length, token % length
    i = tl.arange(0, HALF_PAD)
    on = i < HALF
    if head < heads:
        base = q + b.to(tl.int64) * q_b + head * q_h + t * q_t
    else:
        base = k + b.to(tl.int64) * k_b + (head - heads) * k_h + t * k_t
    at = b * c_b + t * c_t
    low = tl.load(base + i, mask=on, other=0.0).to(tl.float32)
    high = tl.load(base + HALF + i, mask=on, other=0.0).to(tl.float32)
    c0 = tl.load(cos + at + i, mask=on, other=0.0).to(tl.float32)
    c1 = tl.load(cos + at + HALF + i, mask=on, other=0.0).to(tl.float32)
    s0 = tl.load(sin + at + i, mask=on, other=0.0).to(tl.float32)
    s1 = tl.load(sin + at + HALF + i, mask=on, other=0.0).to(tl.float32)
    # Products rounded as the layer itself does.
    dtype: tl.constexpr = q.dtype.element_ty
    first = (low * c0).to(dtype).to(tl.float32) - (high * s0).to(dtype).to(tl.float32)
    second = (high * c1).to(dtype).to(tl.float32) + (low * s1).to(dtype).to(tl.float32)
    tl.store(base + i, first.to(dtype), mask=on)
    tl.store(base + HALF + i, second.to(dtype), mask=on)


def rotate(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Rotary embedding of `query[B, H, T, D]`, `key[B, Hkv, T, D]` in place; `cos`, `sin` `[B or 1, T, D]`
    (arXiv:2104.09864, halves rotated as in GPT-NeoX)."""
    batch, heads, length, width = query.shape
    _rotate[(batch * length, heads + key.shape[1])](
        query,
        key,
        cos,
        sin,
        heads,
        length,
        query.stride(0),
        query.stride(1),
        query.stride(2),
        key.stride(0),
        key.stride(1),
        key.stride(2),
        cos.stride(0) if cos.shape[0] > 1 else 0,
        cos.stride(1),
        HALF=width // 2,
        HALF_PAD=triton.next_power_of_2(width // 2),
        num_warps=1,
    )
