"""Truncated importance sampling: a weight makes up for a sampler whose distribution is not quite the trainer's."""

from __future__ import annotations

import torch
from torch import Tensor

from verlcli.engine.algorithms.aggregate import Totals, share

LOG_RATIO_LIMIT = 20.0


def truncated_weights(old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor, *, threshold: float) -> Tensor:
    """`old_logprobs[B, T]` of the trainer, `rollout_logprobs[B, T]` of the sampler, `mask[B, T]` -> `weights[B, T]`.

    w = min(exp(old - rollout), threshold), a token at a time and without gradient; 0 where mask is 0 (truncated
    importance sampling, Ionides 2008, doi:10.1198/106186008X320456; token level as in verl).
    """
    return raw_weights(old_logprobs, rollout_logprobs, mask).clamp(max=threshold)


def raw_weights(old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor) -> Tensor:
    """exp(old - rollout) `[B, T]` without a bound, detached; 0 where mask is 0. The difference is limited to +-20."""
    log_ratio = (old_logprobs - rollout_logprobs).detach().clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return torch.where(mask.bool(), log_ratio.exp(), 0.0)


def mismatch(old_logprobs: Tensor, rollout_logprobs: Tensor, mask: Tensor, totals: Totals) -> dict[str, Tensor]:
    """How far trainer and sampler are apart, as shares of means over tokens that add up over micro batches.

    `rollout_gap`: mean |old - rollout|. `rollout_kl`: k3 of KL(sampler, trainer), w - log w - 1 with w as above.
    """
    log_ratio = (old_logprobs - rollout_logprobs).detach()
    k3 = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp() - log_ratio - 1
    return {"rollout_gap": share(log_ratio.abs(), mask, totals), "rollout_kl": share(k3, mask, totals)}


def weight_report(raw: Tensor, mask: Tensor, totals: Totals, *, threshold: float) -> dict[str, Tensor]:
    """`raw[B, T]` weights -> `rollout_is_mean` (as applied) and `rollout_is_clipped` (share above `threshold`)."""
    return {
        "rollout_is_mean": share(raw.clamp(max=threshold), mask, totals),
        "rollout_is_clipped": share(raw > threshold, mask, totals),
    }
