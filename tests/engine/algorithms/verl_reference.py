"""Runs in an environment with verl 0.9.1 and nothing of ours: `python verl_reference.py CASES.pt RESULTS.pt`.

A case is `{"kind": ..., "arguments": ...}`; its result is a dict of tensors, and of the gradient where there is one.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor
from verl import DataProto
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_offpolicy_metrics, compute_rollout_correction_weights
from verl.workers.config import ActorConfig
from verl.workers.reward_manager.dapo import DAPORewardManager

Results = dict[str, Any]


def advantage(
    name: str, group: list[int], gamma: float, lam: float, norm_adv_by_std: bool, **tensors: Tensor
) -> Results:
    function = core_algos.get_adv_estimator_fn(name)
    rewards = tensors["token_level_rewards"].clone()
    more: dict[str, Any] = {"index": np.array(group), "config": AlgoConfig(gamma=gamma, lam=lam)}
    if name == "gae":
        more = {"values": tensors["values"], "gamma": gamma, "lam": lam}
    elif name.startswith("grpo"):
        more["norm_adv_by_std_in_grpo"] = norm_adv_by_std
    advantages, returns = function(token_level_rewards=rewards, response_mask=tensors["response_mask"], **more)
    return {"advantages": advantages, "returns": returns}


def policy_loss(
    mode: str,
    agg: str,
    clip: tuple[float, float, float],
    weights: Tensor | None,
    global_batch: dict[str, int],
    **tensors: Tensor,
) -> Results:
    low, high, dual = clip
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        ppo_mini_batch_size=4,
        clip_ratio=low,
        clip_ratio_low=low,
        clip_ratio_high=high,
        clip_ratio_c=dual,
    )
    config.global_batch_info.update(global_batch)
    log_prob = tensors.pop("log_prob").clone().requires_grad_()
    loss, metrics = core_algos.get_policy_loss_fn(mode)(
        log_prob=log_prob, loss_agg_mode=agg, config=config, rollout_is_weights=weights, **tensors
    )
    (gradient,) = torch.autograd.grad(loss, log_prob)
    return {"loss": loss.detach(), "gradient": gradient, **metrics}


def value_loss(agg: str, clip: float, **tensors: Tensor) -> Results:
    vpreds = tensors.pop("vpreds").clone().requires_grad_()
    loss, clipped = core_algos.compute_value_loss(vpreds=vpreds, cliprange_value=clip, loss_agg_mode=agg, **tensors)
    (gradient,) = torch.autograd.grad(loss, vpreds)
    return {"loss": loss.detach(), "gradient": gradient, "clip_fraction": clipped}


def entropy(agg: str, logits: Tensor, response_mask: Tensor) -> Results:
    leaf = logits.clone().requires_grad_()
    loss = core_algos.compute_entropy_loss(leaf, response_mask, agg)
    (gradient,) = torch.autograd.grad(loss, leaf)
    return {"loss": loss.detach(), "gradient": gradient}


def kl(estimator: str, logprob: Tensor, reference: Tensor) -> Results:
    leaf = logprob.clone().requires_grad_()
    values = core_algos.kl_penalty(leaf, reference, estimator)
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return {"kl": values.detach(), "gradient": gradient}


def controller(kl_coef: float, target: float, horizon: int, steps: list[tuple[float, int]]) -> Results:
    found = core_algos.AdaptiveKLController(kl_coef, target, horizon)
    coefficients = []
    for current, sequences in steps:
        found.update(current, sequences)
        coefficients.append(float(found.value))
    return {"coefficients": coefficients}


def importance(threshold: float, old: Tensor, rollout: Tensor, response_mask: Tensor) -> Results:
    weights, metrics = compute_rollout_correction_weights(old - rollout, response_mask, "token", threshold)
    return {"weights": weights, **metrics, **compute_offpolicy_metrics(old, rollout, response_mask)}


class _Letters:
    """A tokenizer in name only: the scores do not depend on the text."""

    eos_token = "</s>"

    def decode(self, ids: Tensor, skip_special_tokens: bool = True) -> str:
        return "x" * len(ids)


class _Buffer(dict[str, Any]):
    __getattr__ = dict.__getitem__


def overlong(scores: list[float], mask: Tensor, max_tokens: int, buffer: int, factor: float) -> Results:
    rows, width = mask.shape
    settings = _Buffer(enable=True, len=buffer, penalty_factor=factor, log=False)
    answers = iter(scores)
    manager = DAPORewardManager(
        _Letters(), 0, compute_score=lambda **_: next(answers), max_resp_len=max_tokens, overlong_buffer_cfg=settings
    )
    data = DataProto.from_dict(
        tensors={
            "prompts": torch.ones(rows, 1, dtype=torch.long),
            "responses": torch.ones(rows, width, dtype=torch.long),
            "attention_mask": torch.cat([torch.ones(rows, 1), mask], dim=1).long(),
        },
        non_tensors={
            "reward_model": np.array([{"ground_truth": ""}] * rows, dtype=object),
            "data_source": np.array(["x"] * rows, dtype=object),
            "extra_info": np.array([{} for _ in range(rows)], dtype=object),
        },
    )
    return {"rewards": manager(data).sum(-1)}


KINDS = {
    each.__name__: each for each in (advantage, policy_loss, value_loss, entropy, kl, controller, importance, overlong)
}


if __name__ == "__main__":
    cases = torch.load(sys.argv[1], weights_only=True)
    torch.save([KINDS[case["kind"]](**case["arguments"]) for case in cases], sys.argv[2])
