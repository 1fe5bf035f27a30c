"""Advantages, between the rewards and the update: GRPO's group baseline and PPO's GAE."""

from __future__ import annotations

import torch
from torch import Tensor


def grpo_advantages(rewards: Tensor, group: Tensor, *, norm_adv_by_std: bool = True, eps: float = 1e-6) -> Tensor:
    """`rewards[B]`, `group[B]` (a prompt's id for each of its samples) -> `advantages[B]`.

    A_i = (r_i - mean_g) / (std_g + eps), std with Bessel's correction (DeepSeekMath, arXiv:2402.03300).
    Without `norm_adv_by_std` A_i = r_i - mean_g (Dr. GRPO, arXiv:2503.20783). A group of one keeps its reward: mean 0,
    std 1, as in verl. Computed in float64, so equal float32 rewards give exactly zero, not rounding noise over `eps`.
    """
    scores = rewards.double()
    _, index, counts = torch.unique(group, return_inverse=True, return_counts=True)
    size = counts.double()
    mean = _sum_by_group(scores, index, len(counts)) / size
    mean = torch.where(counts > 1, mean, 0.0)
    advantages = scores - mean[index]
    if norm_adv_by_std:
        variance = _sum_by_group(advantages.square(), index, len(counts)) / (size - 1).clamp(min=1)
        std = torch.where(counts > 1, variance.sqrt(), 1.0)
        advantages = advantages / (std[index] + eps)
    return advantages.to(rewards.dtype if rewards.is_floating_point() else torch.float32)


def _sum_by_group(values: Tensor, index: Tensor, groups: int) -> Tensor:
    return values.new_zeros(groups).index_add(0, index, values)


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
