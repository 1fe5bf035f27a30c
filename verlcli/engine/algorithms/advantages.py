"""Advantages, between the rewards and the update: group baselines for whole responses, returns and GAE for tokens."""

from __future__ import annotations

import torch
from torch import Tensor


def grpo_advantages(rewards: Tensor, group: Tensor, *, norm_adv_by_std: bool = True, eps: float = 1e-6) -> Tensor:
    """`rewards[B]`, `group[B]` (a prompt's id for each of its samples) -> `advantages[B]`.

    A_i = (r_i - mean_g) / (std_g + eps), std with Bessel's correction (DeepSeekMath, arXiv:2402.03300).
    Without `norm_adv_by_std` A_i = r_i - mean_g (Dr. GRPO, arXiv:2503.20783). A group of one keeps its reward: mean 0,
    std 1, as in verl. Computed in float64, so equal float32 rewards give exactly zero, not rounding noise over `eps`.
    """
    advantages, index, counts = _less_the_mean(rewards, group)
    if norm_adv_by_std:
        variance = _sum_by_group(advantages.square(), index, len(counts)) / (counts - 1).clamp(min=1)
        std = torch.where(counts > 1, variance.sqrt(), 1.0)
        advantages = advantages / (std[index] + eps)
    return _as_float(advantages, rewards)


def rloo_advantages(rewards: Tensor, group: Tensor) -> Tensor:
    """`rewards[B]`, `group[B]` -> `advantages[B]`: each reward less the mean of the others of its group.

    A_i = r_i - sum_{j != i}(r_j) / (n - 1) = (r_i - mean_g) n / (n - 1) (RLOO, arXiv:2402.14740). A group of one keeps
    its reward, as in verl.
    """
    advantages, index, counts = _less_the_mean(rewards, group)
    size = counts[index]
    return _as_float(torch.where(size > 1, advantages * size / (size - 1).clamp(min=1), advantages), rewards)


def reinforce_advantages(rewards: Tensor, mask: Tensor, *, gamma: float) -> tuple[Tensor, Tensor]:
    """`rewards[B, T]`, `mask[B, T]` -> `(advantages[B, T], returns[B, T])`, both zero where mask is 0.

    R_t = r_t + gamma * R_next, "next" skipping tokens with mask 0 as in `gae`; advantages are the returns whitened over
    all tokens of the step (REINFORCE++, arXiv:2501.03262).
    """
    on = mask.bool()
    running = torch.zeros_like(rewards[:, 0])
    columns = []
    for t in reversed(range(rewards.shape[1])):
        running = torch.where(on[:, t], rewards[:, t] + gamma * running, running)
        columns.append(running)
    returns = torch.stack(columns[::-1], dim=1) * on
    return whiten(returns, mask), returns


def reinforce_baseline_advantages(rewards: Tensor, group: Tensor, mask: Tensor) -> Tensor:
    """`rewards[B]`, `group[B]`, `mask[B, T]` -> `advantages[B, T]`: reward less the group's mean, then whitened.

    A_it = whiten(r_i - mean_g) over all tokens of the step (REINFORCE++ with baseline, arXiv:2501.03262). A group of
    one keeps its reward until it is whitened, as in verl.
    """
    centred = _as_float(_less_the_mean(rewards, group)[0], rewards)
    return whiten(centred[:, None].expand(mask.shape), mask)


def gae(rewards: Tensor, values: Tensor, mask: Tensor, *, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """`rewards[B, T]`, `values[B, T]`, `mask[B, T]` -> `(advantages[B, T], returns[B, T])`, both zero where mask is 0.

    delta_t = r_t + gamma * V_next - V_t and A_t = delta_t + gamma * lam * A_next, where "next" is the next token with
    mask 1: padding and observation tokens are skipped (arXiv:1506.02438; the skipping as in verl). returns = A + V of
    the raw advantages; whiten them afterwards with `whiten`.
    """
    mask = mask.to(values.dtype)
    next_value = torch.zeros_like(values[:, 0])
    last = torch.zeros_like(next_value)
    columns = []
    for t in reversed(range(values.shape[1])):
        on = mask[:, t].bool()
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        last = torch.where(on, delta + gamma * lam * last, last)
        next_value = torch.where(on, values[:, t], next_value)
        columns.append(last)
    raw = torch.stack(columns[::-1], dim=1)
    return raw * mask, (raw + values) * mask


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """`values[B, T]`, `mask[B, T]` -> values with mean 0 and variance 1 over the masked-in tokens, zero elsewhere.

    (x - mean) * rsqrt(var + 1e-8) with the unbiased variance, as in verl. A single token has no variance: zero.
    """
    mask = mask.to(values.dtype)
    values = torch.where(mask.bool(), values, 0.0)
    count = mask.sum()
    mean = values.sum() / count.clamp(min=1)
    centred = (values - mean) * mask
    variance = centred.square().sum() / (count - 1).clamp(min=1)
    return centred * torch.rsqrt(variance + 1e-8)


def _less_the_mean(rewards: Tensor, group: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards less their group's mean `[B]`, each one's group as an index `[B]`, sizes `[G]`; float64, a lone one's
    mean being 0."""
    scores = rewards.double()
    _, index, counts = torch.unique(group, return_inverse=True, return_counts=True)
    size = counts.double()
    mean = torch.where(counts > 1, _sum_by_group(scores, index, len(counts)) / size, 0.0)
    return scores - mean[index], index, size


def _sum_by_group(values: Tensor, index: Tensor, groups: int) -> Tensor:
    return values.new_zeros(groups).index_add(0, index, values)


def _as_float(values: Tensor, like: Tensor) -> Tensor:
    return values.to(like.dtype if like.is_floating_point() else torch.float32)
