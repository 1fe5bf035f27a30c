"""Small layers of a decoder, one kernel each way; they round where the layers in torch round."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4096  # numbers that a program of the norm holds
PROGRAMS = 512  # of the norm's backward pass, each with a part of the weight's gradient


@triton.jit
def _rms_norm(
    x, weight, out, scales, eps, rows, width, x_row, SAVE: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    on = (r < rows)[:, None] & (i < width)[None, :]
    value = tl.load(x + r[:, None] * x_row + i[None, :], mask=on, other=0.0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, 1) / width + eps)
    if SAVE:
        tl.store(scales + r, scale, mask=r < rows)
    normed = (value * scale[:, None]).to(x.dtype.element_ty).to(tl.float32)
    gain = tl.load(weight + i, mask=i < width, other=0.0).to(tl.float32)
    tl.store(out + r[:, None] * width + i[None, :], (normed * gain[None, :]).to(out.dtype.element_ty), mask=on)


@triton.jit
def _rms_norm_backward(
    grad,
    x,
    weight,
    scales,
    grad_x,
    parts,
    rows,
    width,
    x_row,
    WEIGHT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.arange(0, BLOCK)
    gain = tl.load(weight + i, mask=i < width, other=0.0).to(tl.float32)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        r = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)
        on = (r < rows)[:, None] & (i < width)[None, :]
        value = tl.load(x + r[:, None] * x_row + i[None, :], mask=on, other=0.0).to(tl.float32)
        g = tl.load(grad + r[:, None] * width + i[None, :], mask=on, other=0.0).to(tl.float32)
        scale = tl.load(scales + r, mask=r < rows, other=0.0)
        if WEIGHT:
            total += tl.sum(g * (value * scale[:, None]).to(x.dtype.element_ty).to(tl.float32), 0)
        g = g * gain[None, :]
        along = tl.sum(g * value, 1) * scale * scale / width
        new = scale[:, None] * (g - value * along[:, None])
        tl.store(grad_x + r[:, None] * width + i[None, :], new.to(grad_x.dtype.element_ty), mask=on)
    if WEIGHT:
        tl.store(parts + tl.program_id(0) * width + i, total, mask=i < width)


def _tile(width: int) -> dict[str, int]:
    block = triton.next_power_of_2(width)
    return {"ROWS": max(1, TILE // block), "BLOCK": block, "num_warps": 4 if block <= TILE else 16}


def _normed(x: Tensor, weight: Tensor, eps: float, scales: Tensor | None) -> Tensor:
    flat, width = x.reshape(-1, x.shape[-1]), x.shape[-1]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    rows, tile = flat.shape[0], _tile(width)
    if rows <= PROGRAMS:
        tile["ROWS"] = 1  # few rows, as in decoding: each its own program
    _rms_norm[(triton.cdiv(rows, tile["ROWS"]),)](
        flat,
        weight,
        out,
        out if scales is None else scales,
        eps,
        rows,
        width,
        flat.stride(0),
        SAVE=scales is not None,
        **tile,
    )
    return out


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scales = torch.empty(x.shape[:-1].numel(), dtype=torch.float32, device=x.device)
        ctx.save_for_backward(x, weight, scales)
        return _normed(x, weight, eps, scales)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        x, weight, scales = ctx.saved_tensors
        flat, width, needed = x.reshape(-1, x.shape[-1]), x.shape[-1], ctx.needs_input_grad[1]
        tile = _tile(width)
        programs = min(PROGRAMS, triton.cdiv(flat.shape[0], tile["ROWS"]))
        grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        parts = torch.empty(programs if needed else 0, width, dtype=torch.float32, device=x.device)
        _rms_norm_backward[(programs,)](
            grad.contiguous(),
            flat,
            weight,
            scales,
            grad_x,
            parts,
            flat.shape[0],
            width,
            flat.stride(0),
            WEIGHT=needed,
            **tile,
        )
        return grad_x, parts.sum(0).to(weight.dtype) if needed else None, None


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x[..., H]` -> weight * x / sqrt(mean(x^2) + eps) (arXiv:1910.07467)."""
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        out: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
        return out
    return _normed(x, weight, eps, None)


@triton.jit
def _silu_mul(gate, up, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = i < n
    g = tl.load(gate + i, mask=on, other=0.0).to(tl.float32)
    u = tl.load(up + i, mask=on, other=0.0).to(tl.float32)
    # Rounded between the two as the layer itself does: the rollout's log-probs stay close to the trainer's.
    silu = (g / (1.0 + tl.exp(-g))).to(out.dtype.element_ty).to(tl.float32)
    tl.store(out + i, (silu * u).to(out.dtype.element_ty), mask=on)


@triton.jit
def _silu_mul_backward(gate, up, grad, grad_gate, grad_up, product, n, PRODUCT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = i < n
    g = tl.load(gate + i, mask=on, other=0.0).to(tl.float32)
    u = tl.load(up + i, mask=on, other=0.0).to(tl.float32)
    d = tl.load(grad + i, mask=on, other=0.0).to(tl.float32)
    share = 1.0 / (1.0 + tl.exp(-g))
    silu = (g * share).to(gate.dtype.element_ty).to(tl.float32)
    tl.store(grad_gate + i, (d * u * share * (1.0 + g * (1.0 - share))).to(gate.dtype.element_ty), mask=on)
    tl.store(grad_up + i, (d * silu).to(gate.dtype.element_ty), mask=on)
    if PRODUCT:
        tl.store(product + i, (silu * u).to(gate.dtype.element_ty), mask=on)


def _product(gate: Tensor, up: Tensor) -> Tensor:
    out = torch.empty_like(gate)
    _silu_mul[(triton.cdiv(gate.numel(), 1024),)](gate, up, out, gate.numel(), BLOCK=1024, num_warps=4)
    return out


def _product_gradients(gate: Tensor, up: Tensor, grad: Tensor, *, product: bool) -> tuple[Tensor, Tensor]:
    """Gradients of gate and up; with `product`, `grad` holds silu(gate) * up afterwards."""
    grad_gate, grad_up = torch.empty_like(gate), torch.empty_like(up)
    _silu_mul_backward[(triton.cdiv(gate.numel(), 1024),)](
        gate, up, grad, grad_gate, grad_up, grad, gate.numel(), PRODUCT=product, BLOCK=1024, num_warps=4
    )
    return grad_gate, grad_up


class _SiluMul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return _product(gate, up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        return _product_gradients(gate, up, grad.contiguous(), product=False)


class _SiluMulLinear(torch.autograd.Function):
    """Keeps gate and up alone: their product, the input of the linear layer, is made again for its gradient."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up, weight)
        return torch.nn.functional.linear(_product(gate, up), weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        gate, up, weight = ctx.saved_tensors
        needed = ctx.needs_input_grad[2]
        product = grad @ weight  # its gradient, at first
        grad_gate, grad_up = _product_gradients(gate, up, product, product=needed)
        grad_weight = grad.flatten(0, -2).T @ product.flatten(0, -2) if needed else None
        return grad_gate, grad_up, grad_weight


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up, elementwise on tensors of one shape (SwiGLU, arXiv:2002.05202)."""
    gate, up = gate.contiguous(), up.contiguous()
    if torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad):
        out: Tensor = _SiluMul.apply(gate, up)  # type: ignore[no-untyped-call]
        return out
    return _product(gate, up)


def silu_mul_linear(gate: Tensor, up: Tensor, weight: Tensor) -> Tensor:
    """(silu(gate) * up) weight^T of `gate`, `up` `[..., I]` and `weight[H, I]`."""
    gate, up = gate.contiguous(), up.contiguous()
    if torch.is_grad_enabled() and (gate.requires_grad or up.requires_grad or weight.requires_grad):
        out: Tensor = _SiluMulLinear.apply(gate, up, weight)  # type: ignore[no-untyped-call]
        return out
    return torch.nn.functional.linear(_product(gate, up), weight)


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
    (arXiv:2104.09864, halves rotated as in GPT-NeoX). In place where no gradients are recorded."""
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad):
        out: tuple[Tensor, Tensor] = _Rotate.apply(query, key, cos, sin)  # type: ignore[no-untyped-call]
        return out
    _rotated(query, key, cos, sin, (query, key), backward=False)
    return query, key
