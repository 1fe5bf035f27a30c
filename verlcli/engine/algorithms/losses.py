"""The losses of an update: clipped policy loss, clipped value loss, and how token losses become one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

LossAggMode = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
LOG_RATIO_LIMIT = 20.0  # exp(20) is finite in fp32 and beyond any useful ratio; the limit of verl and OpenRLHF


@dataclass(frozen=True, slots=True)
class Totals:
    """The divisors of a whole mini batch, over all its micro batches and ranks.

    Losses divided by these add up: the sum over micro batches is the mini batch's loss, however it was split.

    Attributes:
        tokens: response tokens with mask 1.
        sequences: sequences with at least one such token.
        max_tokens: the constant length that `seq-mean-token-sum-norm` divides by; `data.max_response_length`.
    """

    tokens: int
    sequences: int
    max_tokens: int

    @classmethod
    def of(cls, mask: Tensor, *, max_tokens: int | None = None) -> Totals:
        """Count `mask[B, T]` of a whole mini batch; `max_tokens` defaults to T."""
        on = mask.bool()
        return cls(int(on.sum()), int(on.any(dim=1).sum()), max_tokens or mask.shape[1])


def aggregate(losses: Tensor, mask: Tensor, mode: LossAggMode, totals: Totals) -> Tensor:
    """`losses[B, T]`, `mask[B, T]` of one micro batch -> scalar, its share of the mini batch's loss.

    With l_it a token's loss, n_i a sequence's tokens, N and S the totals of tokens and sequences:
    token-mean sum(l_it) / N (DAPO, arXiv:2503.14476); seq-mean-token-sum sum(l_it) / S;
    seq-mean-token-mean sum_i(sum_t(l_it) / n_i) / S (GRPO, arXiv:2402.03300);
    seq-mean-token-sum-norm sum(l_it) / (S * max_tokens) (Dr. GRPO, arXiv:2503.20783).
    """
    mask = mask.bool()
    losses = torch.where(mask, losses, 0.0)
    sequences = max(totals.sequences, 1)
    if mode == "token-mean":
        return losses.sum() / max(totals.tokens, 1)
    if mode == "seq-mean-token-sum":
        return losses.sum() / sequences
    if mode == "seq-mean-token-mean":
        return (losses.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).sum() / sequences
    if mode == "seq-mean-token-sum-norm":
        return losses.sum() / (sequences * max(totals.max_tokens, 1))
    raise ValueError(f"unknown loss_agg_mode {mode!r}; choose one of {', '.join(get_args(LossAggMode))}")


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
    clip_c: float | None = None,
    mode: LossAggMode,
    totals: Totals,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`logprobs`, `old_logprobs`, `advantages`, `mask`, all `[B, T]` -> (scalar loss, stats).

    max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)) with r = exp(logprobs - old_logprobs), the difference clamped to
    +-20 (PPO, arXiv:1707.06347). Where A < 0 the loss is bounded by -clip_c A (dual clip, arXiv:1912.09729).
    `advantages[B, 1]` broadcasts.

    Returns: the loss, and detached shares of means over the mini batch's tokens, which add up over micro batches:
    `clip_fraction` (tokens whose clipped loss is strictly greater), `clip_fraction_lower` (dual clip), `ppo_kl` (k1).
    """
    if clip_c is not None and clip_c <= 1:
        raise ValueError(f"clip_c must be greater than 1, not {clip_c}")
    log_ratio = (logprobs - old_logprobs).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio = log_ratio.exp()
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip_low, 1 + clip_high)
    losses = torch.maximum(plain, clipped)
    bounded = torch.zeros_like(losses, dtype=torch.bool)
    if clip_c is not None:
        bound = -clip_c * advantages
        bounded = (advantages < 0) & (losses > bound)
        losses = torch.where(bounded, bound, losses)
    stats = {
        "clip_fraction": _share(clipped > plain, mask, totals),
        "clip_fraction_lower": _share(bounded, mask, totals),
        "ppo_kl": _share(-log_ratio, mask, totals),
    }
    return aggregate(losses, mask, mode, totals), stats


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    mask: Tensor,
    *,
    value_clip: float,
    mode: LossAggMode = "token-mean",
    totals: Totals,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`values`, `old_values`, `returns`, `mask`, all `[B, T]` -> (scalar loss, stats).

    max((V - R)^2, (clip(V, V_old - value_clip, V_old + value_clip) - R)^2) / 2, the clipping of OpenAI's PPO code as in
    verl. Stats as in `policy_loss`: `value_clip_fraction`.
    """
    clipped = torch.clamp(values, old_values - value_clip, old_values + value_clip)
    plain = (values - returns).square()
    clipped = (clipped - returns).square()
    loss = aggregate(torch.maximum(plain, clipped) / 2, mask, mode, totals)
    return loss, {"value_clip_fraction": _share(clipped > plain, mask, totals)}


def _share(values: Tensor, mask: Tensor, totals: Totals) -> Tensor:
    return aggregate(values.detach().float(), mask, "token-mean", totals)
