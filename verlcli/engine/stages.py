"""The stages of a step: rollout, reward, dynamic sampling, log-probs, values, advantages, updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from verlcli.engine.algorithms import (
    Totals,
    adapted_kl_coef,
    overlong_penalty,
    sequence_kl,
    unequal_groups,
    value_loss,
)
from verlcli.engine.batch import Batch
from verlcli.engine.dataflow import Stage
from verlcli.engine.groups import join, take
from verlcli.engine.objective import actor_loss, can_skip_flat_rows, reward_kl, with_advantages
from verlcli.engine.randomness import derive_seed, seed_all
from verlcli.engine.rewards import RewardError
from verlcli.engine.rollout import Rollout, Sampling
from verlcli.engine.scoring import decode_responses, score_responses, to_batch

if TYPE_CHECKING:
    from verlcli.config.types import Config
    from verlcli.engine.roles import Roles
    from verlcli.engine.training import TorchEngine, UpdateResult
    from verlcli.engine.types import PromptRow
    from verlcli.plan.types import Plan

MorePrompts = Callable[[int], "tuple[list[PromptRow], list[list[int]]] | None"]
LossOf = Callable[..., tuple[Tensor, dict[str, Tensor]]]


@dataclass(slots=True)
class StepState:
    """One step on its way through the stages.

    Attributes:
        more_prompts: rows and token ids of the step's n-th further batch of prompts, n from 1, a function of step and
            n alone; None: there are no more.
        carried: numbers that one step hands to the next, saved with checkpoints: `kl_coef` where it adapts.
    """

    step: int  # 1-based
    rows: list[PromptRow]
    prompt_ids: list[list[int]]
    lr: float
    critic_lr: float
    on_update: Callable[[str, UpdateResult, Batch], None]
    more_prompts: MorePrompts | None = None
    carried: dict[str, float] = field(default_factory=dict)
    rollout: Rollout | None = None
    batch: Batch | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    reward_errors: tuple[RewardError, ...] = ()
    generated_tokens: int = 0
    trained_tokens: int = 0

    @property
    def ready(self) -> Batch:
        assert self.batch is not None, "the rollout stage has not run"
        return self.batch


def build_stages(config: Config, plan: Plan, roles: Roles) -> list[Stage[StepState]]:
    """The graph of one step for this config: stages that have nothing to do are left out."""
    work = _Work(config, plan, roles)
    filtered = [Stage("filter_groups", ("reward",), work.filter_groups)] if config.algorithm.filter_groups else []
    sampled = ("filter_groups",) if filtered else ("rollout",)
    # One update on its own samples is on-policy: the old log-probs are the update's own, and no pass is needed.
    old = (
        [] if plan.batch.updates == 1 and not work.kl_in_reward else [Stage("old_logprobs", sampled, work.old_logprobs)]
    )
    reference = [] if roles.reference is None else [Stage("reference", sampled, work.reference)]
    values = [] if roles.critic is None else [Stage("values", sampled, work.values)]
    before = ("reward", *(s.name for s in (*filtered, *old, *reference, *values)))
    update_critic = [] if roles.critic is None else [Stage("update_critic", ("advantages",), work.update_critic)]
    return [
        Stage("rollout", (), work.rollout),
        Stage("reward", ("rollout",), work.reward),
        *filtered,
        *old,
        *reference,
        *values,
        Stage("advantages", before, work.advantages),
        *update_critic,
        Stage("update_actor", ("advantages",), work.update_actor),
    ]


def sampling_of(config: Config) -> Sampling:
    """How the config says that tokens are drawn."""
    rollout = config.rollout
    return Sampling(
        max_tokens=config.data.max_response_length,
        temperature=rollout.temperature,
        top_p=rollout.top_p,
        top_k=rollout.top_k,
        min_tokens=rollout.min_tokens,
        stop=rollout.stop,
    )


class _Work:
    def __init__(self, config: Config, plan: Plan, roles: Roles) -> None:
        self._config = config
        self._algorithm = config.algorithm
        self._batch_plan = plan.batch
        self._roles = roles
        self._sampling = sampling_of(config)

    @property
    def kl_in_reward(self) -> bool:
        return self._algorithm.kl_in == "reward" and self._algorithm.kl_coef != 0

    def rollout(self, state: StepState, stream: str = "rollout") -> None:
        n = self._batch_plan.samples_per_prompt
        seed_all(self._config.trainer.seed, state.step, stream)
        self._roles.actor.phase = "generation"
        rollout = self._roles.generate(state.prompt_ids, n, self._sampling)
        self._roles.rollout.sleep()
        self._roles.actor.phase = "training"
        state.rollout = rollout
        state.batch = to_batch(rollout, n)
        state.generated_tokens += rollout.num_tokens
        lengths = rollout.mask.sum(-1).float()
        finished = torch.isin(rollout.tokens, torch.tensor(self._roles.rollout.eos_ids, device=rollout.tokens.device))
        state.metrics["response_length"] = lengths.mean().item()
        ended = (finished & rollout.mask).any(-1) | (lengths < self._sampling.max_tokens)  # or by a stop string
        state.metrics["response_cut"] = 1 - ended.float().mean().item()

    def reward(self, state: StepState, stream: str = "reward") -> None:
        batch = state.ready
        n = self._batch_plan.samples_per_prompt
        rows = [row for row in state.rows for _ in range(n)]
        seed = derive_seed(self._config.trainer.seed, state.step, stream)
        judged = score_responses(self._roles, rows, decode_responses(self._roles.tokenizer, batch), seed=seed)
        state.reward_errors += judged.errors
        rewards = scores = torch.tensor(judged.scores, device=batch.input_ids.device)
        if self._algorithm.overlong_buffer:
            penalty = overlong_penalty(
                batch.response_mask.sum(-1),
                max_tokens=self._config.data.max_response_length,
                buffer=self._algorithm.overlong_buffer,
                factor=self._algorithm.overlong_penalty,
            )
            rewards = rewards + penalty
            state.metrics["overlong_penalty"] = penalty.mean().item()
        state.batch = batch.with_(rewards=rewards, scores=scores.clone())  # a file of tensors takes no shared ones
        state.metrics |= {
            "reward": rewards.mean().item(),
            "reward_std": rewards.std(correction=0).item(),
            **({} if judged.accuracy is None else {"accuracy": judged.accuracy}),
            "equal_groups": 1 - unequal_groups(scores, n).float().mean().item(),
            "reward_errors": float(len(judged.errors)),
            **({"reward_truncated": float(judged.truncated)} if judged.truncated else {}),
        }

    def filter_groups(self, state: StepState) -> None:
        """DAPO's dynamic sampling: drop groups of equal rewards, sample further prompts until the batch is full.

        The step's metrics are the means over all that was sampled. A step without any group to learn from keeps one,
        so that it makes its update all the same: by momentum, weight decay and what else the loss has.
        """
        n, wanted = self._batch_plan.samples_per_prompt, len(state.rows)
        first, limit = state.rollout, self._algorithm.max_num_gen_batches
        sampled, metrics = [state.ready], [state.metrics]
        kept = [self._unequal(state.ready)]
        while sum(map(len, kept)) < wanted * n and state.more_prompts and (limit == 0 or len(sampled) < limit):
            number = len(sampled)
            further = state.more_prompts(number)
            if further is None:
                break
            state.rows, state.prompt_ids = further
            state.metrics = {}
            self.rollout(state, f"rollout/{number}")
            self.reward(state, f"reward/{number}")
            sampled.append(state.ready)
            metrics.append(state.metrics)
            kept.append(self._unequal(state.ready))
        useful = [batch for batch in kept if len(batch)] or [take(sampled[0], torch.arange(n))]
        batch = join(useful)
        state.batch = take(batch, torch.arange(min(len(batch), wanted * n)))
        state.rollout = first
        state.metrics = _over_all(metrics) | {
            "gen_batches": float(len(sampled)),
            "groups_kept": float(sum(map(len, kept)) // n),
            "groups_dropped": float(sum(map(len, sampled)) // n - sum(map(len, kept)) // n),
        }

    def _unequal(self, batch: Batch) -> Batch:
        n = self._batch_plan.samples_per_prompt
        assert batch.scores is not None  # a penalty for length would make every group of wrong answers unequal
        return take(batch, unequal_groups(batch.scores, n).repeat_interleave(n))

    def old_logprobs(self, state: StepState) -> None:
        state.batch = state.ready.with_(old_logprobs=self._infer(self._roles.actor, state.ready))

    def reference(self, state: StepState) -> None:
        assert self._roles.reference is not None
        state.batch = state.ready.with_(ref_logprobs=self._infer(self._roles.reference, state.ready))

    def values(self, state: StepState) -> None:
        assert self._roles.critic is not None
        state.batch = state.ready.with_(values=self._infer(self._roles.critic, state.ready))

    def _infer(self, engine: TorchEngine, batch: Batch) -> Tensor:
        values: Tensor = engine.infer(engine.plan_micro_batches(batch), width=batch.response_width)
        return values

    def advantages(self, state: StepState) -> None:
        batch = state.ready
        kl = reward_kl(batch, self._algorithm) if self.kl_in_reward else None
        state.batch = with_advantages(batch, self._algorithm, kl, self._kl_coef(state))
        if kl is not None:
            self._adapt_kl(state, sequence_kl(kl, batch.response_mask))
        for name, tensor in (("value", batch.values), ("return", state.ready.returns)):
            if tensor is not None:
                state.metrics[name] = _masked_mean(tensor, batch.response_mask)

    def _kl_coef(self, state: StepState) -> float:
        return state.carried.get("kl_coef", self._algorithm.kl_coef)

    def _adapt_kl(self, state: StepState, kl: float) -> None:
        """Steer the next step's coefficient by the distance of this one."""
        algorithm, kl_coef = self._algorithm, self._kl_coef(state)
        if algorithm.kl_target is None:
            return
        state.metrics["kl_coef"] = kl_coef
        state.carried["kl_coef"] = adapted_kl_coef(
            kl_coef, kl, target=algorithm.kl_target, horizon=algorithm.kl_horizon, sequences=len(state.ready)
        )

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
        largest: list[Tensor] = []

        def loss_for(totals: Totals) -> LossOf:
            def loss(out: tuple[Tensor, Tensor], micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
                value, stats = actor_loss(out, micro, self._algorithm, totals, self._kl_coef(state))
                if "rollout_is_max" in stats:
                    largest.append(stats.pop("rollout_is_max"))
                return value, stats

            return loss

        results = self._update(self._roles.actor, "actor", loss_for, state, state.lr)
        state.metrics |= _means(results, {"loss": "loss", "grad_norm": "grad_norm"})
        state.metrics["lr"] = state.lr
        if largest:
            state.metrics["rollout_is_max"] = torch.stack(largest).amax().item()
        if self._algorithm.kl_in == "loss" and "kl" in state.metrics:
            self._adapt_kl(state, state.metrics["kl"])

    def _update(
        self,
        engine: TorchEngine,
        role: str,
        loss_for: Callable[[Totals], LossOf],
        state: StepState,
        lr: float,
    ) -> list[UpdateResult]:
        batch, plan = state.ready, self._batch_plan
        skips = role == "actor" and can_skip_flat_rows(self._algorithm)
        results = []
        for _ in range(plan.ppo_epochs):
            for mini in batch.split(plan.mini_batch_sequences_per_rank):
                totals = Totals.of(mini.response_mask, max_tokens=self._config.data.max_response_length)
                seen = _not_flat(mini) if skips else mini
                totals = replace(totals, seen=int(seen.response_mask.sum()))
                result = engine.update(engine.plan_micro_batches(seen), loss_for(totals), lr=lr)
                results.append(result)
                state.on_update(role, result, seen)
                if role == "actor":
                    state.trained_tokens += int(seen.attention_mask.sum())
        return results


def _not_flat(mini: Batch) -> Batch:
    """The rows with an advantage; the first row where there is none, so that an update is made all the same."""
    assert mini.advantages is not None
    rows = (mini.advantages != 0).any(dim=1)
    if not rows.any():
        rows[0] = True
    return mini if rows.all() else take(mini, rows)


def _means(results: list[UpdateResult], names: dict[str, str]) -> dict[str, float]:
    """Means over a step's updates: the named attributes, and every stat."""
    used = [r for r in results if r.applied] or results
    means = {name: sum(getattr(r, attribute) for r in used) / len(used) for name, attribute in names.items()}
    for stat in used[0].stats:
        means[stat] = sum(r.stats[stat] for r in used) / len(used)
    skipped = sum(not r.applied for r in results)
    return means | ({"skipped_updates": float(skipped)} if skipped else {})


def _over_all(metrics: list[dict[str, float]]) -> dict[str, float]:
    """Means of each metric over those that have it; counts are added up."""
    names = dict.fromkeys(name for each in metrics for name in each)
    found = {name: [each[name] for each in metrics if name in each] for name in names}
    means = {name: sum(values) / len(values) for name, values in found.items()}
    return means | {name: sum(found[name]) for name in ("reward_errors", "reward_truncated") if name in found}


def _masked_mean(values: Tensor, mask: Tensor) -> float:
    return (values * mask).sum().item() / max(1, int(mask.sum()))
