"""KL divergence from the reference policy, estimated a token at a time; enters the loss or the reward."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

KlEstimator = Literal["k1", "k2", "k3"]

LEAST_FACTOR = 0.5  # of one step on an adaptive coefficient


def kl_penalty(logprobs: Tensor, reference: Tensor, estimator: KlEstimator) -> Tensor:
    """`logprobs[B, T]` of the policy, `reference[B, T]` of the reference -> `kl[B, T]`, samples from the policy.

    With d = reference - logprobs: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1 (http://joschu.net/blog/kl-approx.html).
    k3 clamps d to +-20 and itself to +-10, as in verl. As a loss term only k2 has the gradient of the KL divergence;
    k1's is zero in expectation, so k1 belongs in the reward.
    """
    d = reference - logprobs
    if estimator == "k1":
        return -d
    if estimator == "k2":
        return d.square() / 2
    if estimator == "k3":
        d = d.clamp(-20.0, 20.0)
        return (d.exp() - d - 1).clamp(-10.0, 10.0)
    raise ValueError(f"unknown KL estimator {estimator!r}; choose k1, k2 or k3")


def rewards_with_kl(scores: Tensor, kl: Tensor, mask: Tensor, *, kl_coef: float) -> Tensor:
    """`scores[B]` of whole answers, `kl[B, T]`, `mask[B, T]` -> `rewards[B, T]`: the score at the last token, less KL.

    r_t = score * [t is the last token with mask 1] - kl_coef * kl_t (InstructGPT, arXiv:2203.02155). Zero where mask is
    0. With `kl_coef` 0 the KL is not looked at.
    """
    on = mask.bool()
    rewards = torch.zeros_like(kl) if kl_coef == 0 else torch.where(on, -kl_coef * kl, 0.0)
    positions = torch.arange(on.shape[1], device=on.device)
    last = torch.where(on, positions, -1).amax(dim=1, keepdim=True)
    return torch.where(positions == last, rewards + scores.to(kl.dtype)[:, None], rewards)


def sequence_kl(kl: Tensor, mask: Tensor) -> float:
    """`kl[B, T]`, `mask[B, T]` -> mean over sequences of each one's mean over tokens; an empty sequence counts 0."""
    on = mask.bool()
    means = torch.where(on, kl, 0.0).sum(dim=1) / on.sum(dim=1).clamp(min=1)
    return means.mean().item()


def adapted_kl_coef(kl_coef: float, kl: float, *, target: float, horizon: int, sequences: int) -> float:
    """The coefficient for the next step, `kl` nats a token having been measured on `sequences` responses.

    kl_coef * (1 + clip(kl / target - 1, -0.2, 0.2) * sequences / horizon) (Ziegler et al., arXiv:1909.08593). The
    factor is at least 0.5, so that a horizon shorter than a step turns no sign; a `kl` that is not finite changes
    nothing.
    """
    if not math.isfinite(kl):
        return kl_coef
    error = min(max(kl / target - 1, -0.2), 0.2)
    return kl_coef * max(1 + error * sequences / horizon, LEAST_FACTOR)
