"""RMSNorm as one kernel each way; it rounds where the layer in torch rounds."""

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
    """`x[..., H]` -> weight * x / sqrt(mean(x^2) + eps) (arXiv:1910.07467), in x's dtype."""
    x, weight = x if x.stride(-1) == 1 else x.contiguous(), weight.contiguous()
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        out: Tensor = _RmsNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
        return out
    return _normed(x, weight, eps, None)
