"""Triton kernels over a chunk of logits `[n, V]`: one pass for the statistics, one for the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

if TYPE_CHECKING:
    from verlcli.engine.training.linear_logprob import Head

BLOCK = 4096  # columns at once
_WARPS = 8


@triton.jit
def _z(x, scale, cap, inverse_temperature, HAS_CAP: tl.constexpr):
    x = x * scale
    if HAS_CAP:
        x = cap * (2.0 * tl.sigmoid(2.0 * x / cap) - 1.0)  # tanh
    return x * inverse_temperature


@triton.jit(do_not_specialize=["rows"])
def _statistics_kernel(
    logits,
    targets,
    out,  # [3, n]: log-prob, logsumexp, entropy
    rows,
    vocabulary,
    scale,
    cap,
    inverse_temperature,
    HAS_CAP: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    line = logits + row * vocabulary
    lanes = tl.arange(0, BLOCK)
    # Each lane keeps its own maximum and sums, so that the lanes meet once, at the end. Finite, so that no
    # difference of infinities arises.
    highest = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    weighted = tl.zeros([BLOCK], tl.float32)
    for start in range(0, vocabulary, BLOCK):
        columns = start + lanes
        x = tl.load(line + columns, mask=columns < vocabulary, other=float("-inf"))
        z = _z(x, scale, cap, inverse_temperature, HAS_CAP)
        z = tl.where(columns < vocabulary, z, float("-inf"))
        now = tl.maximum(highest, z)
        shrink = tl.exp(highest - now)
        p = tl.exp(z - now)
        total = total * shrink + p
        weighted = weighted * shrink + tl.where(p == 0.0, 0.0, p * z)
        highest = now
    top = tl.max(highest, axis=0)
    shrink = tl.exp(highest - top)
    total_of_all = tl.sum(total * shrink, axis=0)
    lse = top + tl.log(total_of_all)
    target = tl.load(targets + row)
    at_target = _z(tl.load(line + target), scale, cap, inverse_temperature, HAS_CAP)
    tl.store(out + row, at_target - lse)
    tl.store(out + rows + row, lse)
    tl.store(out + 2 * rows + row, lse - tl.sum(weighted * shrink, axis=0) / total_of_all)


@triton.jit
def _gradient_kernel(
    source,  # logits, or probabilities where KEPT
    targets,
    per_row,  # logsumexp, or log-probs of the targets where KEPT
    entropies,
    of_logprobs,
    of_entropies,
    out,  # may be `source` where KEPT
    vocabulary,
    scale,
    cap,
    inverse_temperature,
    HAS_CAP: tl.constexpr,
    HAS_ENTROPY: tl.constexpr,
    KEPT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < vocabulary
    x = tl.load(source + row * vocabulary + columns, mask=inside, other=0.0).to(tl.float32)
    slope = scale * inverse_temperature
    is_target = columns == tl.load(targets + row)
    if KEPT:
        # Exact at the target, whose gradient is 1 - p.
        p = tl.where(is_target, tl.exp(tl.load(per_row + row)), x)
        log_p = tl.log(tl.where(p == 0.0, 1.0, p))
    else:
        z = _z(x, scale, cap, inverse_temperature, HAS_CAP)
        log_p = z - tl.load(per_row + row)
        p = tl.exp(log_p)
        log_p = tl.where(p == 0.0, 0.0, log_p)
        if HAS_CAP:
            capped = z / (inverse_temperature * cap)
            slope = slope * (1.0 - capped * capped)
    g = tl.load(of_logprobs + row)
    d = -g * p
    if HAS_ENTROPY:
        d -= tl.load(of_entropies + row) * p * (log_p + tl.load(entropies + row))
    d = tl.where(is_target, d + g, d)
    tl.store(out + row * vocabulary + columns, (d * slope).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _probabilities_kernel(
    logits,
    lse,
    out,
    vocabulary,
    scale,
    inverse_temperature,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * vocabulary + columns, mask=columns < vocabulary, other=0.0)
    p = tl.exp(x * (scale * inverse_temperature) - tl.load(lse + row))
    tl.store(out + row * vocabulary + columns, p.to(out.dtype.element_ty), mask=columns < vocabulary)


def statistics(logits: Tensor, targets: Tensor, head: Head) -> Tensor:
    """(log-prob, logsumexp, entropy) `[3, n]` of fp32 `logits[n, V]` at `targets[n]`."""
    rows, vocabulary = logits.shape
    out = torch.empty(3, rows, device=logits.device)
    _statistics_kernel[(rows,)](
        logits, targets.contiguous(), out, rows, vocabulary, *_of(head), BLOCK=BLOCK, num_warps=_WARPS
    )
    return out


def gradient(
    logits: Tensor,
    targets: Tensor,
    lse: Tensor,
    entropies: Tensor,
    upstream: tuple[Tensor, Tensor | None],
    head: Head,
    dtype: torch.dtype,
) -> Tensor:
    """dloss / dlogits `[n, V]` in `dtype`; see `linear_logprob._gradient`."""
    out = torch.empty_like(logits, dtype=dtype)
    _run_gradient(logits, targets, lse, entropies, upstream, head, out, kept=False)
    return out


def gradient_of_kept(
    p: Tensor,
    targets: Tensor,
    logprobs: Tensor,
    entropies: Tensor,
    upstream: tuple[Tensor, Tensor | None],
    head: Head,
) -> Tensor:
    """The same from probabilities `p[n, V]`, in their place, and exact `logprobs[n]` of the targets."""
    _run_gradient(p, targets, logprobs, entropies, upstream, head, p, kept=True)
    return p


def _run_gradient(
    source: Tensor,
    targets: Tensor,
    per_row: Tensor,
    entropies: Tensor,
    upstream: tuple[Tensor, Tensor | None],
    head: Head,
    out: Tensor,
    *,
    kept: bool,
) -> None:
    rows, vocabulary = source.shape
    g, e = upstream
    _gradient_kernel[(rows, triton.cdiv(vocabulary, BLOCK))](
        source,
        targets.contiguous(),
        per_row.contiguous(),
        entropies.contiguous(),
        g.contiguous(),
        (g if e is None else e).contiguous(),
        out,
        vocabulary,
        *_of(head),
        HAS_ENTROPY=e is not None,
        KEPT=kept,
        BLOCK=BLOCK,
        num_warps=_WARPS,
    )


def probabilities(logits: Tensor, lse: Tensor, head: Head, dtype: torch.dtype) -> Tensor:
    """softmax(z) `[n, V]` in `dtype`, of a head without softcap."""
    rows, vocabulary = logits.shape
    out = torch.empty_like(logits, dtype=dtype)
    _probabilities_kernel[(rows, triton.cdiv(vocabulary, BLOCK))](
        logits, lse.contiguous(), out, vocabulary, *_of(head)[0:3:2], BLOCK=BLOCK, num_warps=_WARPS
    )
    return out


def _of(head: Head) -> tuple[Any, ...]:
    """scale, cap, inverse temperature, HAS_CAP; floats, since each int type or 1 would be a kernel of its own."""
    return float(head.scale), float(head.softcap or 1.0), 1.0 / head.temperature, head.softcap is not None
