"""SwiGLU, alone and with the linear layer behind it; it rounds where the layers in torch round."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


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
