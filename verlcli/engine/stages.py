"""The stages of a PPO or GRPO step: rollout, reward, log-probs, values, advantages, updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from verlcli.engine.algorithms import (
    Totals,
    aggregate,
    gae,
    grpo_advantages,
    kl_penalty,
    policy_loss,
    rewards_with_kl,
    value_loss,
    whiten,
)
from verlcli.engine.batch import Batch
from verlcli.engine.dataflow import Stage
from verlcli.engine.randomness import derive_seed, seed_all
from verlcli.engine.rewards import RewardError, RewardInput
from verlcli.engine.rollout import Rollout, Sampling

if TYPE_CHECKING:
    from verlcli.config.types import AlgorithmConfig, Config
    from verlcli.engine.roles import Roles
    from verlcli.engine.training import TorchEngine, UpdateResult
    from verlcli.engine.types import PromptRow
    from verlcli.plan.types import Plan


@dataclass(slots=True)
class StepState:
    """One step on its way through the stages."""

    step: int  # 1-based
    rows: list[PromptRow]
    prompt_ids: list[list[int]]
    lr: float
    critic_lr: float
    on_update: Callable[[str, UpdateResult, Batch], None]
    rollout: Rollout | None = None
    batch: Batch | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    reward_errors: tuple[RewardError, ...] = ()
    trained_tokens: int = 0

    @property
    def ready(self) -> Batch:
        assert self.batch is not None, "the rollout stage has not run"
        return self.batch


def build_stages(config: Config, plan: Plan, roles: Roles) -> list[Stage[StepState]]:
    """The graph of one step for this config: stages that have nothing to do are left out."""
    work = _Work(config, plan, roles)
    # One update on its own samples is on-policy: the old log-probs are the update's own, and no pass is needed.
    old = (
        []
        if plan.batch.updates == 1 and not work.kl_in_reward
        else [Stage("old_logprobs", ("rollout",), work.old_logprobs)]
    )
    reference = [] if roles.reference is None else [Stage("reference", ("rollout",), work.reference)]
    values = [] if roles.critic is None else [Stage("values", ("rollout",), work.values)]
    before = ("reward", *(s.name for s in (*old, *reference, *values)))
    update_critic = [] if roles.critic is None else [Stage("update_critic", ("advantages",), work.update_critic)]
    return [
        Stage("rollout", (), work.rollout),
        Stage("reward", ("rollout",), work.reward),
        *old,
        *reference,
        *values,
        Stage("advantages", before, work.advantages),
        *update_critic,
        Stage("update_actor", ("advantages",), work.update_actor),
    ]


class _Work:
    def __init__(self, config: Config, plan: Plan, roles: Roles) -> None:
        self._config = config
        self._algorithm = config.algorithm
        self._batch_plan = plan.batch
        self._roles = roles
        self._sampling = Sampling(
            max_tokens=config.data.max_response_length,
            temperature=config.rollout.temperature,
            top_p=config.rollout.top_p,
            top_k=config.rollout.top_k,
        )

    @property
    def kl_in_reward(self) -> bool:
        return self._algorithm.kl_in == "reward" and self._algorithm.kl_coef != 0

    def rollout(self, state: StepState) -> None:
        n = self._batch_plan.samples_per_prompt
        seed_all(self._config.trainer.seed, state.step, "rollout")
        self._roles.actor.phase = "generation"
        rollout = self._roles.rollout.generate(state.prompt_ids, n, self._sampling)
        self._roles.actor.phase = "training"
        state.rollout = rollout
        state.batch = to_batch(rollout, n)
        lengths = rollout.mask.sum(-1).float()
        finished = torch.isin(rollout.tokens, torch.tensor(self._roles.rollout.eos_ids, device=rollout.tokens.device))
        state.metrics["response_length"] = lengths.mean().item()
        state.metrics["response_cut"] = 1 - (finished & rollout.mask).any(-1).float().mean().item()

    def reward(self, state: StepState) -> None:
        batch = state.ready
        n = self._batch_plan.samples_per_prompt
        rows = [row for row in state.rows for _ in range(n)]
        seed = derive_seed(self._config.trainer.seed, state.step, "reward")
        judged = score_responses(self._roles, rows, decode_responses(self._roles.tokenizer, batch), seed=seed)
        state.reward_errors = judged.errors
        rewards = torch.tensor(judged.scores, device=batch.input_ids.device)
        state.batch = batch.with_(rewards=rewards)
        groups = rewards.view(-1, n)
        state.metrics |= {
            "reward": rewards.mean().item(),
            "reward_std": rewards.std(correction=0).item(),
            **({} if judged.accuracy is None else {"accuracy": judged.accuracy}),
            "equal_groups": (groups.amax(1) == groups.amin(1)).float().mean().item(),
            "reward_errors": float(len(state.reward_errors)),
        }

    def old_logprobs(self, state: StepState) -> None:
        state.batch = state.ready.with_(old_logprobs=self._infer(self._roles.actor, state.ready))

    def reference(self, state: StepState) -> None:
        assert self._roles.reference is not None
        state.batch = state.ready.with_(ref_logprobs=self._infer(self._roles.reference, state.ready))

    def values(self, state: StepState) -> None:
        assert self._roles.critic is not None
        state.batch = state.ready.with_(values=self._infer(self._roles.critic, state.ready))

    def _infer(self, engine: TorchEngine, batch: Batch) -> Tensor:
        values: Tensor = engine.infer(batch.split(self._batch_plan.micro_batch_sequences), width=batch.response_width)
        return values

    def advantages(self, state: StepState) -> None:
        batch = state.ready
        assert batch.rewards is not None
        rewards = rewards_with_kl(
            batch.rewards,
            self._reward_kl(batch),
            batch.response_mask,
            kl_coef=self._algorithm.kl_coef if self.kl_in_reward else 0.0,
        )
        if batch.values is None:
            # As in verl: GRPO compares whole responses, so the KL penalties of a response's tokens are summed.
            of_responses = rewards.sum(-1) if self.kl_in_reward else batch.rewards
            per_sequence = grpo_advantages(of_responses, batch.groups, norm_adv_by_std=self._algorithm.norm_adv_by_std)
            state.batch = batch.with_(advantages=per_sequence[:, None] * batch.response_mask)
            return
        raw, returns = gae(
            rewards, batch.values, batch.response_mask, gamma=self._algorithm.gamma, lam=self._algorithm.lam
        )
        state.batch = batch.with_(advantages=whiten(raw, batch.response_mask), returns=returns)
        state.metrics["value"] = _masked_mean(batch.values, batch.response_mask)
        state.metrics["return"] = _masked_mean(returns, batch.response_mask)

    def _reward_kl(self, batch: Batch) -> Tensor:
        if not self.kl_in_reward:
            return torch.zeros_like(batch.response_mask, dtype=torch.float32)
        assert batch.old_logprobs is not None
        assert batch.ref_logprobs is not None
        return kl_penalty(batch.old_logprobs, batch.ref_logprobs, self._algorithm.kl_estimator)

    def update_critic(self, state: StepState) -> None:
        assert self._roles.critic is not None

        def loss_for(totals: Totals) -> LossOf:
            def loss(values: Tensor, micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
                assert micro.values is not None
                assert micro.returns is not None
                return value_loss(
                    values,
                    micro.values,
                    micro.returns,
                    micro.response_mask,
                    value_clip=self._algorithm.value_clip,
                    totals=totals,
                )

            return loss

        results = self._update(self._roles.critic, "critic", loss_for, state, state.critic_lr)
        state.metrics |= _means(results, {"value_loss": "loss", "value_grad_norm": "grad_norm"})

    def update_actor(self, state: StepState) -> None:
        def loss_for(totals: Totals) -> LossOf:
            return lambda out, micro: actor_loss(out, micro, self._algorithm, totals)

        results = self._update(self._roles.actor, "actor", loss_for, state, state.lr)
        state.metrics |= _means(results, {"loss": "loss", "grad_norm": "grad_norm"})
        state.metrics["lr"] = state.lr
        state.trained_tokens = int(state.ready.attention_mask.sum()) * self._batch_plan.ppo_epochs

    def _update(
        self,
        engine: TorchEngine,
        role: str,
        loss_for: Callable[[Totals], LossOf],
        state: StepState,
        lr: float,
    ) -> list[UpdateResult]:
        batch, plan = state.ready, self._batch_plan
        results = []
        for _ in range(plan.ppo_epochs):
            for mini in batch.split(plan.mini_batch_sequences_per_rank):
                totals = Totals.of(mini.response_mask, max_tokens=self._config.data.max_response_length)
                result = engine.update(mini.split(plan.micro_batch_sequences), loss_for(totals), lr=lr)
                results.append(result)
                state.on_update(role, result, mini)
        return results


LossOf = Callable[..., tuple[Tensor, dict[str, Tensor]]]


def actor_loss(
    out: tuple[Tensor, Tensor], micro: Batch, algorithm: AlgorithmConfig, totals: Totals
) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy loss, plus KL loss and minus entropy bonus where the config asks; `out`: (logprobs, entropy) `[B, R]`."""
    logprobs, entropy = out
    mask, mode = micro.response_mask, algorithm.loss_agg_mode
    old = logprobs.detach() if micro.old_logprobs is None else micro.old_logprobs
    assert micro.advantages is not None
    loss, stats = policy_loss(
        logprobs,
        old,
        micro.advantages,
        mask,
        clip_low=_or(algorithm.clip_ratio_low, algorithm.clip_ratio),
        clip_high=_or(algorithm.clip_ratio_high, algorithm.clip_ratio),
        clip_c=algorithm.clip_ratio_c,
        mode=mode,
        totals=totals,
    )
    stats["policy_loss"] = loss.detach()
    stats["entropy"] = aggregate(entropy.detach(), mask, "token-mean", totals)
    if micro.rollout_logprobs is not None:
        gap = (logprobs.detach() - micro.rollout_logprobs).abs()
        stats["rollout_gap"] = aggregate(gap, mask, "token-mean", totals)
    if micro.ref_logprobs is not None:
        kl = kl_penalty(logprobs, micro.ref_logprobs, algorithm.kl_estimator)
        stats["kl"] = aggregate(kl.detach(), mask, "token-mean", totals)
        if algorithm.kl_in == "loss":
            loss = loss + algorithm.kl_coef * aggregate(kl, mask, mode, totals)
    if algorithm.entropy_coef != 0:
        loss = loss - algorithm.entropy_coef * aggregate(entropy, mask, mode, totals)
    return loss, stats


def to_batch(rollout: Rollout, n: int) -> Batch:
    """Prompts and responses side by side; rows `i*n .. i*n+n-1` form group i."""
    rows = rollout.tokens.shape[0]
    return Batch(
        input_ids=torch.cat([rollout.prompt_ids, rollout.tokens], dim=1),
        attention_mask=torch.cat([rollout.prompt_mask, rollout.mask.long()], dim=1),
        response_mask=rollout.mask,
        groups=torch.arange(rows, device=rollout.tokens.device) // n,
        rollout_logprobs=rollout.logprobs,
    )


def decode_responses(tokenizer: object, batch: Batch) -> list[str]:
    """Responses as text, special tokens and padding left out."""
    rows = [tokens[mask].tolist() for tokens, mask in zip(batch.responses, batch.response_mask, strict=True)]
    texts: list[str] = tokenizer.batch_decode(rows, skip_special_tokens=True)  # type: ignore[attr-defined]
    return texts


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rewards say about B responses.

    Attributes:
        scores: `[B]`, weighted functions plus reward model.
        accuracy: share that the first reward function by itself scores 1 or more; None without a function.
        errors: samples whose reward failed (scored 0).
    """

    scores: list[float]
    accuracy: float | None
    errors: tuple[RewardError, ...]


def score_responses(roles: Roles, rows: list[PromptRow], texts: list[str], *, seed: int) -> Judged:
    """Score `texts`, the responses to `rows`.

    Raises:
        TrainingFailedError: more samples failed than `reward.max_error_fraction` allows.
    """
    scores, accuracy, errors = [0.0] * len(texts), None, tuple[RewardError, ...]()
    if roles.rewarder is not None:
        inputs = [
            RewardInput(row.data_source, text, row.ground_truth, row.extra_info)
            for row, text in zip(rows, texts, strict=True)
        ]
        outcome = roles.rewarder.score(inputs, seed=seed)
        roles.rewarder.check(outcome, len(inputs))
        scores, errors = list(outcome.scores), tuple(outcome.errors)
        accuracy = sum(score >= 1.0 for score in outcome.first) / len(texts)
    if roles.reward_model is not None:
        judged = roles.reward_model.score([row.prompt for row in rows], texts)
        scores = [a + b for a, b in zip(scores, judged, strict=True)]
    return Judged(scores, accuracy, errors)


def _means(results: list[UpdateResult], names: dict[str, str]) -> dict[str, float]:
    """Means over a step's updates: the named attributes, and every stat."""
    used = [r for r in results if r.applied] or results
    means = {name: sum(getattr(r, attribute) for r in used) / len(used) for name, attribute in names.items()}
    for stat in used[0].stats:
        means[stat] = sum(r.stats[stat] for r in used) / len(used)
    skipped = sum(not r.applied for r in results)
    return means | ({"skipped_updates": float(skipped)} if skipped else {})


def _masked_mean(values: Tensor, mask: Tensor) -> float:
    return (values * mask).sum().item() / max(1, int(mask.sum()))


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
