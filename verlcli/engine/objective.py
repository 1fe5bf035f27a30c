"""What an algorithm makes of a batch: its advantages before the updates, and the actor's loss in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from verlcli.config.algorithms import ALGORITHMS
from verlcli.engine.algorithms import (
    Totals,
    aggregate,
    gae,
    grpo_advantages,
    kl_penalty,
    mismatch,
    policy_loss,
    raw_weights,
    reinforce_advantages,
    reinforce_baseline_advantages,
    rewards_with_kl,
    rloo_advantages,
    share,
    truncated_weights,
    weight_report,
    whiten,
)
from verlcli.engine.batch import Batch

if TYPE_CHECKING:
    from verlcli.config.types import AlgorithmConfig


def reward_kl(batch: Batch, algorithm: AlgorithmConfig) -> Tensor:
    """KL from the reference `[B, R]` that is taken off the rewards; of the policy that sampled, so a plain number."""
    assert batch.old_logprobs is not None
    assert batch.ref_logprobs is not None
    return kl_penalty(batch.old_logprobs, batch.ref_logprobs, algorithm.kl_estimator)


def with_advantages(batch: Batch, algorithm: AlgorithmConfig, kl: Tensor | None, kl_coef: float) -> Batch:
    """The batch with advantages `[B, R]`, and with returns where there are values.

    `kl[B, R]`, times `kl_coef`, is taken off the rewards: of each token where tokens have rewards, of the whole
    response, summed, where responses are compared (as in verl). None: no KL in the reward.
    """
    assert batch.rewards is not None
    mask, estimator = batch.response_mask, ALGORITHMS[algorithm.name].estimator
    if estimator in ("gae", "reinforce_plus_plus"):
        none = torch.zeros(mask.shape, device=mask.device)
        of_tokens = rewards_with_kl(
            batch.rewards, none if kl is None else kl, mask, kl_coef=0.0 if kl is None else kl_coef
        )
        if estimator == "reinforce_plus_plus":
            return batch.with_(advantages=reinforce_advantages(of_tokens, mask, gamma=algorithm.gamma)[0])
        assert batch.values is not None
        raw, returns = gae(of_tokens, batch.values, mask, gamma=algorithm.gamma, lam=algorithm.lam)
        return batch.with_(advantages=whiten(raw, mask), returns=returns)
    rewards = batch.rewards if kl is None else batch.rewards - kl_coef * torch.where(mask, kl, 0.0).sum(dim=1)
    if estimator == "reinforce_plus_plus_baseline":
        return batch.with_(advantages=reinforce_baseline_advantages(rewards, batch.groups, mask))
    if estimator == "rloo":
        of_responses = rloo_advantages(rewards, batch.groups)
    else:
        of_responses = grpo_advantages(rewards, batch.groups, norm_adv_by_std=algorithm.norm_adv_by_std)
    return batch.with_(advantages=of_responses[:, None] * mask)


def can_skip_flat_rows(algorithm: AlgorithmConfig) -> bool:
    """Whether a response whose advantages are all zero adds nothing to loss and gradient: no other term is on."""
    return algorithm.entropy_coef == 0 and (algorithm.kl_coef == 0 or algorithm.kl_in == "reward")


def actor_loss(
    out: tuple[Tensor, Tensor], micro: Batch, algorithm: AlgorithmConfig, totals: Totals, kl_coef: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy loss, plus KL loss and minus entropy bonus where the config asks; `out`: (logprobs, entropy) `[B, R]`.

    The stats add up over micro batches, but for `rollout_is_max`, of which the largest counts.
    """
    logprobs, entropy = out
    mask, mode = micro.response_mask, algorithm.loss_agg_mode
    old = logprobs.detach() if micro.old_logprobs is None else micro.old_logprobs
    assert micro.advantages is not None
    weights, stats = _rollout_weights(old, micro, algorithm, totals)
    loss, of_policy = policy_loss(
        logprobs,
        old,
        micro.advantages,
        mask,
        kind=algorithm.policy_loss,
        clip_low=_or(algorithm.clip_ratio_low, algorithm.clip_ratio),
        clip_high=_or(algorithm.clip_ratio_high, algorithm.clip_ratio),
        clip_c=algorithm.clip_ratio_c if algorithm.policy_loss == "clip" else None,
        weights=weights,
        mode=mode,
        totals=totals,
    )
    stats |= of_policy
    stats["policy_loss"] = loss.detach()
    stats["entropy"] = share(entropy, mask, totals)
    if micro.ref_logprobs is not None:
        kl = kl_penalty(logprobs, micro.ref_logprobs, algorithm.kl_estimator)
        stats["kl"] = share(kl, mask, totals)
        if algorithm.kl_in == "loss":
            loss = loss + kl_coef * aggregate(kl, mask, mode, totals)
    if algorithm.entropy_coef != 0:
        loss = loss - algorithm.entropy_coef * aggregate(entropy, mask, mode, totals)
    return loss, stats


def _rollout_weights(
    old: Tensor, micro: Batch, algorithm: AlgorithmConfig, totals: Totals
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """Truncated importance weights `[B, R]`, None where they are off, and the report on rollout against trainer."""
    if micro.rollout_logprobs is None:
        return None, {}
    mask, threshold = micro.response_mask, algorithm.rollout_is_threshold
    stats = mismatch(old, micro.rollout_logprobs, mask, totals)
    if algorithm.rollout_is is None:
        return None, stats
    raw = raw_weights(old, micro.rollout_logprobs, mask)
    stats |= weight_report(raw, mask, totals, threshold=threshold)
    stats["rollout_is_max"] = raw.amax()
    return truncated_weights(old, micro.rollout_logprobs, mask, threshold=threshold), stats


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
