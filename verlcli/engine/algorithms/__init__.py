"""The mathematics of a step, between rollout and optimizer: pure torch functions, one file a family."""

from __future__ import annotations

from verlcli.engine.algorithms.advantages import (
    gae,
    grpo_advantages,
    reinforce_advantages,
    reinforce_baseline_advantages,
    rloo_advantages,
    whiten,
)
from verlcli.engine.algorithms.aggregate import LossAggMode, Totals, aggregate, share
from verlcli.engine.algorithms.importance import mismatch, raw_weights, truncated_weights, weight_report
from verlcli.engine.algorithms.kl import adapted_kl_coef, kl_penalty, rewards_with_kl, sequence_kl
from verlcli.engine.algorithms.losses import PolicyLoss, policy_loss, value_loss
from verlcli.engine.algorithms.shaping import overlong_penalty, unequal_groups
from verlcli.engine.algorithms.tokens import entropy_of, logprobs_of

__all__ = [
    "LossAggMode",
    "PolicyLoss",
    "Totals",
    "adapted_kl_coef",
    "aggregate",
    "entropy_of",
    "gae",
    "grpo_advantages",
    "kl_penalty",
    "logprobs_of",
    "mismatch",
    "overlong_penalty",
    "policy_loss",
    "raw_weights",
    "reinforce_advantages",
    "reinforce_baseline_advantages",
    "rewards_with_kl",
    "rloo_advantages",
    "sequence_kl",
    "share",
    "truncated_weights",
    "unequal_groups",
    "value_loss",
    "weight_report",
    "whiten",
]
