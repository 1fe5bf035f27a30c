"""The losses of an update: PPO's clipped loss, GSPO's and CISPO's for the policy, the clipped one for the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from verlcli.engine.algorithms.aggregate import LossAggMode, Totals, aggregate, share

PolicyLoss = Literal["clip", "gspo", "cispo"]
LOG_RATIO_LIMIT = 20.0  # exp(20) is finite in fp32 and beyond any useful ratio; the limit of verl and OpenRLHF
SEQUENCE_LOG_RATIO_LIMIT = 10.0  # of a whole sequence's mean log ratio, from above only; verl's


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """What a policy loss says about each token, all `[B, T]`.

    Attributes:
        losses: with gradient.
        clipped: tokens whose ratio the clip range bounds.
        bounded: tokens that the dual clip bounds; None where the loss has none.
    """

    losses: Tensor
    clipped: Tensor
    bounded: Tensor | None = None


def clip_losses(
    log_ratio: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float, clip_c: float | None = None
) -> TokenLosses:
    """`log_ratio[B, T]` (new minus old log-probability), `advantages[B, T]` -> PPO's losses.

    max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)) with r = exp(log_ratio) (PPO, arXiv:1707.06347; the two bounds
    apart are DAPO's clip-higher, arXiv:2503.14476). Where A < 0 the loss is bounded by -clip_c A (dual clip,
    arXiv:1912.09729). Clipped are tokens whose clipped loss is strictly greater.

    Raises:
        ValueError: `clip_c` is 1 or less.
    """
    if clip_c is not None and clip_c <= 1:
        raise ValueError(f"clip_c must be greater than 1, not {clip_c}")
    ratio = log_ratio.exp()
    plain = -advantages * ratio
    clipped = -advantages * ratio.clamp(1 - clip_low, 1 + clip_high)
    losses = torch.maximum(plain, clipped)
    if clip_c is None:
        return TokenLosses(losses, clipped > plain)
    bound = -clip_c * advantages
    bounded = (advantages < 0) & (losses > bound)
    return TokenLosses(torch.where(bounded, bound, losses), clipped > plain, bounded)


def gspo_losses(
    log_ratio: Tensor, advantages: Tensor, mask: Tensor, *, clip_low: float, clip_high: float
) -> TokenLosses:
    """`log_ratio`, `advantages`, `mask`, all `[B, T]` -> GSPO's losses, one ratio for all tokens of a sequence.

    s_i = exp(sum_t(log r_it) / n_i), and a token's ratio is sg[s_i] r_it / sg[r_it]: its value is s_i, its gradient
    the token's (GSPO-token, arXiv:2507.18071); then clipped as in PPO. The mean log ratio is limited to 10, as in verl.
    """
    on = mask.bool()
    log_ratio = torch.where(on, log_ratio, 0.0)
    of_sequence = log_ratio.sum(dim=1, keepdim=True) / on.sum(dim=1, keepdim=True).clamp(min=1)
    together = log_ratio - log_ratio.detach() + of_sequence.detach()
    return clip_losses(together.clamp(max=SEQUENCE_LOG_RATIO_LIMIT), advantages, clip_low=clip_low, clip_high=clip_high)


def cispo_losses(
    logprobs: Tensor, log_ratio: Tensor, advantages: Tensor, *, clip_low: float, clip_high: float
) -> TokenLosses:
    """`logprobs`, `log_ratio`, `advantages`, all `[B, T]` -> CISPO's losses: the weight is clipped, never the gradient.

    -sg[clip(r, 1 - clip_low, 1 + clip_high)] A log pi (MiniMax-M1, arXiv:2506.13585). `clip_low` 1 leaves the weight
    free from below. Clipped are tokens whose ratio lies outside.
    """
    ratio = log_ratio.exp().detach()
    weight = ratio.clamp(1 - clip_low, 1 + clip_high)
    return TokenLosses(-weight * advantages * logprobs, ratio != weight)


def policy_loss(
    logprobs: Tensor,
    old_logprobs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    kind: PolicyLoss = "clip",
    clip_low: float,
    clip_high: float,
    clip_c: float | None = None,
    weights: Tensor | None = None,
    mode: LossAggMode,
    totals: Totals,
) -> tuple[Tensor, dict[str, Tensor]]:
    """`logprobs`, `old_logprobs`, `advantages`, `mask`, all `[B, T]` -> (scalar loss, stats).

    The token losses of `kind` (see `clip_losses`, `gspo_losses`, `cispo_losses`), their log ratio limited to +-20, or
    for GSPO the sequence's to 10; times `weights[B, T]` (see `importance.truncated_weights`) where given; then
    averaged. `advantages[B, 1]` broadcasts; `clip_c` belongs to `clip` alone.

    Returns: the loss, and detached shares of means over the mini batch's tokens, which add up over micro batches:
    `clip_fraction`, `clip_fraction_lower` (dual clip), `ppo_kl` (k1).

    Raises:
        ValueError: an unknown `kind` or `mode`, or a `clip_c` of 1 or less.
    """
    log_ratio = logprobs - old_logprobs
    limited = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    if kind == "clip":
        of_tokens = clip_losses(limited, advantages, clip_low=clip_low, clip_high=clip_high, clip_c=clip_c)
    elif kind == "gspo":
        of_tokens = gspo_losses(log_ratio, advantages, mask, clip_low=clip_low, clip_high=clip_high)
    elif kind == "cispo":
        of_tokens = cispo_losses(logprobs, limited, advantages, clip_low=clip_low, clip_high=clip_high)
    else:
        raise ValueError(f"unknown policy_loss {kind!r}; choose one of {', '.join(get_args(PolicyLoss))}")
    losses = of_tokens.losses if weights is None else of_tokens.losses * weights
    stats = {
        "clip_fraction": share(of_tokens.clipped, mask, totals),
        "ppo_kl": share(-limited, mask, totals),
    }
    if of_tokens.bounded is not None:
        stats["clip_fraction_lower"] = share(of_tokens.bounded, mask, totals)
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
    return loss, {"value_clip_fraction": share(clipped > plain, mask, totals)}
