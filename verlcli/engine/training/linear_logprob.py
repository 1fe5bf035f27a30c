"""The output head, log-probabilities and entropies in one: logits exist for a chunk of tokens at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_BYTES = 2**30  # of fp32 logits on a GPU; large, because each chunk reads and writes the head's gradient
CPU_CHUNK_BYTES = 2**26
KEPT_SHARE = 1 / 64  # of a GPU's memory, for probabilities kept from the forward to the backward pass
CPU_KEPT_BYTES = 2**28


@dataclass(frozen=True, slots=True)
class Head:
    """How hidden states become the distribution of the next token.

    z = cap(scale * (h W^T + b)) / temperature, with cap(x) = softcap * tanh(x / softcap), or x without a softcap.
    """

    temperature: float = 1.0
    scale: float = 1.0
    softcap: float | None = None


def linear_logprob(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    head: Head = Head(),
    entropy: bool = True,
    entropy_gradient: bool = False,
    chunk_bytes: int | None = None,
    kept_bytes: int = 0,
) -> tuple[Tensor, Tensor | None]:
    """`hidden[N, H]`, `weight[V, H]`, `targets[N]` -> (log-probs `[N]`, entropies `[N]` or None), in fp32 and nats.

    logprob = z_target - logsumexp(z); entropy = logsumexp(z) - sum(softmax(z) z). Logits are computed again in the
    backward pass, so that any upstream gradient is right; peak memory is 6 bytes x V x tokens of a chunk in bf16.

    Args:
        entropy_gradient: the entropies carry a gradient too.
        chunk_bytes: fp32 logits at once; None: 1 GiB on a GPU, 64 MiB on a CPU.
        kept_bytes: probabilities (in the weight's dtype) that may be kept from the forward to the backward pass, whose
            logits are then not computed again: 2 bytes x V a token in bf16.
    """
    if chunk_bytes is None:
        chunk_bytes = CHUNK_BYTES if hidden.device.type == "cuda" else CPU_CHUNK_BYTES
    hidden = hidden.to(weight.dtype)
    kept_bytes = kept_bytes if torch.is_grad_enabled() else 0  # only here can that be told, see `forward`
    settings = _Settings(head, entropy or entropy_gradient, entropy_gradient, chunk_bytes, kept_bytes)
    logprobs, entropies = _LinearLogprob.apply(hidden, weight, bias, targets, settings)  # type: ignore[no-untyped-call]
    return logprobs, entropies if settings.entropy else None


def head_memory(device: torch.device, *, saving: bool) -> dict[str, int]:
    """`chunk_bytes` and `kept_bytes` of `linear_logprob`, for a run that saves memory at the price of speed or not."""
    if device.type != "cuda":
        return {"chunk_bytes": CPU_CHUNK_BYTES, "kept_bytes": 0 if saving else CPU_KEPT_BYTES}
    if saving:
        return {"chunk_bytes": CHUNK_BYTES // 2, "kept_bytes": 0}
    memory = torch.cuda.get_device_properties(device).total_memory
    return {"chunk_bytes": CHUNK_BYTES, "kept_bytes": int(memory * KEPT_SHARE)}


@dataclass(frozen=True, slots=True)
class _Settings:
    head: Head
    entropy: bool
    entropy_gradient: bool
    chunk_bytes: int
    kept_bytes: int

    def chunks(self, tokens: int, vocabulary: int) -> Iterator[slice]:
        rows = max(1, self.chunk_bytes // (4 * vocabulary))
        rows = rows // 128 * 128 or rows  # whole tiles of a matrix product
        for start in range(0, tokens, rows):
            yield slice(start, min(start + rows, tokens))


class _LinearLogprob(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, settings: _Settings
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = hidden.shape[0], weight.shape[0]
        # Gradients are needed where an input asks for them; `apply` has switched gradients themselves off by now.
        room = settings.kept_bytes if any(ctx.needs_input_grad[:3]) and settings.head.softcap is None else 0
        out = hidden.new_empty(3, tokens, dtype=_precise(hidden.dtype))
        kept: list[Tensor] = []
        for part in settings.chunks(tokens, vocabulary):
            logits = _logits(hidden[part], weight, bias)
            out[:, part] = _statistics(logits, targets[part], settings.head, entropy=settings.entropy)
            room -= logits.numel() * weight.element_size()
            if room >= 0:
                kept.append(_probabilities(logits, out[1, part], settings.head, weight.dtype))
            del logits
        logprobs, lse, entropies = out.unbind()
        ctx.save_for_backward(hidden, weight, bias, targets, logprobs, lse, entropies)
        ctx.kept, ctx.settings = kept, settings
        if not settings.entropy_gradient:
            ctx.mark_non_differentiable(entropies)
        return logprobs.clone(), entropies

    @staticmethod
    def backward(ctx: Any, of_logprobs: Tensor, of_entropies: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, logprobs, lse, entropies = ctx.saved_tensors
        settings, head = ctx.settings, ctx.settings.head
        need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.empty_like(hidden) if need_hidden else None
        grad_weight: Tensor | None = None
        grad_bias = torch.zeros_like(bias, dtype=_precise(bias.dtype)) if need_bias else None
        kept, ctx.kept = ctx.kept[::-1], []  # overwritten below, so a second backward pass computes them again
        for part in settings.chunks(hidden.shape[0], weight.shape[0]):
            upstream = (of_logprobs[part], of_entropies[part] if settings.entropy_gradient else None)
            if kept:
                d = _gradient_of_kept(kept.pop(), targets[part], logprobs[part], entropies[part], upstream, head)
            else:
                logits = _logits(hidden[part], weight, bias)
                d = _gradient(logits, targets[part], lse[part], entropies[part], upstream, head, weight.dtype)
                del logits
            if grad_hidden is not None:
                torch.mm(d, weight, out=grad_hidden[part])
            if need_weight:
                grad_weight = _add_product(grad_weight, d, hidden[part])
            if grad_bias is not None:
                grad_bias += d.sum(0, dtype=grad_bias.dtype)
            del d
        if need_weight and grad_weight is None:
            grad_weight = torch.zeros_like(weight)
        return (
            grad_hidden,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),
            None,
            None,
        )


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _exact_product(a: Tensor, b: Tensor) -> Tensor:
    """`a @ b` in fp32, from operands of whatever dtype."""
    if a.dtype in (torch.float32, torch.float64):
        return torch.mm(a, b)
    if a.device.type == "cuda":
        return torch.mm(a, b, out_dtype=torch.float32)
    return torch.mm(a.float(), b.float())


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    logits = _exact_product(hidden, weight.t())
    return logits if bias is None else logits.add_(bias)


def _add_product(total: Tensor | None, d: Tensor, hidden: Tensor) -> Tensor:
    """`total + d^T hidden` in fp32."""
    if total is None:
        return _exact_product(d.t(), hidden)
    if d.dtype in (torch.float32, torch.float64):
        return total.addmm_(d.t(), hidden)
    if d.device.type == "cuda":
        return torch.addmm(total, d.t(), hidden, out_dtype=torch.float32, out=total)
    return total.addmm_(d.t().float(), hidden.float())


def _triton(tensor: Tensor) -> Any:
    """The kernels where they run, else None."""
    if tensor.device.type != "cuda" or tensor.dtype != torch.float32:
        return None
    try:
        from verlcli.engine.kernels import logprob as logprob_kernels
    except ImportError:  # torch without triton
        return None
    return logprob_kernels


def _statistics(logits: Tensor, targets: Tensor, head: Head, *, entropy: bool) -> Tensor:
    """(log-prob, logsumexp, entropy) `[3, n]` of `logits[n, V]`; the entropy is 0 where nobody asks for it."""
    if (kernels := _triton(logits)) is not None:
        found: Tensor = kernels.statistics(logits, targets, head)
        return found
    z = scaled_logits(logits, head)
    lse = z.logsumexp(-1)
    logprobs = z.gather(-1, targets[:, None]).squeeze(-1) - lse
    entropies = lse - _expected(z, (z - lse[:, None]).exp_()) if entropy else torch.zeros_like(lse)
    return torch.stack([logprobs, lse, entropies])


def _expected(z: Tensor, p: Tensor) -> Tensor:
    """sum(p z), where a token that cannot occur (z = -inf) adds nothing."""
    return p.mul_(z.masked_fill(p == 0, 0.0)).sum(-1)


def scaled_logits(logits: Tensor, head: Head) -> Tensor:
    """z of `Head`, from `h W^T + b`."""
    if head.softcap is None:
        factor = head.scale / head.temperature
        return logits if factor == 1 else logits * factor
    return torch.tanh(logits * (head.scale / head.softcap)) * (head.softcap / head.temperature)


def _slope(z: Tensor, head: Head) -> Tensor | float:
    """dz / dlogits, from z itself."""
    if head.softcap is None:
        return head.scale / head.temperature
    capped = z * (head.temperature / head.softcap)
    return (1 - capped * capped) * (head.scale / head.temperature)


def _gradient(
    logits: Tensor,
    targets: Tensor,
    lse: Tensor,
    entropies: Tensor,
    upstream: tuple[Tensor, Tensor | None],
    head: Head,
    dtype: torch.dtype,
) -> Tensor:
    """dloss / dlogits `[n, V]`: (g (1[target] - p) - e p (log p + entropy)) dz / dlogits, g and e upstream."""
    if (kernels := _triton(logits)) is not None:
        found: Tensor = kernels.gradient(logits, targets, lse, entropies, upstream, head, dtype)
        return found
    z = scaled_logits(logits, head)
    log_p = z - lse[:, None]
    d = _through_softmax(log_p.exp(), log_p, targets, entropies, upstream)
    return d.mul_(_slope(z, head)).to(dtype)


def _through_softmax(
    p: Tensor, log_p: Tensor | None, targets: Tensor, entropies: Tensor, upstream: tuple[Tensor, Tensor | None]
) -> Tensor:
    """dloss / dz `[n, V]`; `p` is overwritten. `log_p` is needed for entropies alone."""
    g, e = upstream
    if e is None:
        d = p.mul_(-g[:, None])
    else:
        assert log_p is not None
        d = p.mul_(-g[:, None] - e[:, None] * (log_p.masked_fill(p == 0, 0.0) + entropies[:, None]))
    return d.scatter_add_(-1, targets[:, None], g[:, None])


def _probabilities(logits: Tensor, lse: Tensor, head: Head, dtype: torch.dtype) -> Tensor:
    """softmax(z) `[n, V]` in `dtype`."""
    if (kernels := _triton(logits)) is not None:
        found: Tensor = kernels.probabilities(logits, lse, head, dtype)
        return found
    return (scaled_logits(logits, head) - lse[:, None]).exp_().to(dtype)


def _gradient_of_kept(
    p: Tensor,
    targets: Tensor,
    logprobs: Tensor,
    entropies: Tensor,
    upstream: tuple[Tensor, Tensor | None],
    head: Head,
) -> Tensor:
    """`_gradient` from kept probabilities, which are overwritten; there is no softcap.

    The target's is taken from its log-prob: bf16 has no number between 0.996 and 1, and 1 - p is its gradient.
    """
    if (kernels := _triton(upstream[0])) is not None:
        found: Tensor = kernels.gradient_of_kept(p, targets, logprobs, entropies, upstream, head)
        return found
    exact = p.to(entropies.dtype).scatter_(-1, targets[:, None], logprobs.exp()[:, None])
    d = _through_softmax(exact, None if upstream[1] is None else exact.log(), targets, entropies, upstream)
    return d.mul_(head.scale / head.temperature).to(p.dtype)
