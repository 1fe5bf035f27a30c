"""The mathematics of a step, between rollout and optimizer: pure torch functions, one file a family."""

from __future__ import annotations

from verlcli.engine.algorithms.advantages import gae, grpo_advantages, whiten
from verlcli.engine.algorithms.kl import kl_penalty, rewards_with_kl
from verlcli.engine.algorithms.losses import LossAggMode, Totals, aggregate, policy_loss, value_loss
from verlcli.engine.algorithms.tokens import entropy_of, logprobs_of

__all__ = [
    "LossAggMode",
    "Totals",
    "aggregate",
    "entropy_of",
    "gae",
    "grpo_advantages",
    "kl_penalty",
    "logprobs_of",
    "policy_loss",
    "rewards_with_kl",
    "value_loss",
    "whiten",
]
