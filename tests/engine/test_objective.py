"""An algorithm's advantages and loss on a batch: independent of split and order, no NaN, rows left out exactly."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from verlcli.config import load_config
from verlcli.config.algorithms import ALGORITHMS
from verlcli.config.types import AlgorithmConfig
from verlcli.engine.algorithms import Totals, grpo_advantages
from verlcli.engine.batch import Batch
from verlcli.engine.groups import join, take
from verlcli.engine.objective import actor_loss, can_skip_flat_rows, reward_kl, with_advantages

ROWS, WIDTH, SAMPLES = 12, 7, 4
GROUPED = [name for name, each in ALGORITHMS.items() if each.is_grouped]


def algorithm(name: str, **changes: Any) -> AlgorithmConfig:
    keys = {"name": name} | changes
    overrides = [f"algorithm.{key}={value}" for key, value in keys.items()]
    return load_config([], ["model.path=a/b", "data.source=arithmetic", *overrides], env={}).require().algorithm


def batch_of(seed: int, *, lengths: list[int] | None = None, rewards: list[float] | None = None) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    old, reference, rollout, values = torch.randn(4, ROWS, WIDTH, generator=generator)
    drawn = torch.randint(1, WIDTH + 1, (ROWS,), generator=generator)
    mask = torch.arange(WIDTH) < (drawn if lengths is None else torch.tensor(lengths))[:, None]
    return Batch(
        input_ids=torch.ones(ROWS, 3 + WIDTH, dtype=torch.long),
        attention_mask=torch.cat([torch.ones(ROWS, 3), mask], dim=1).long(),
        response_mask=mask,
        groups=torch.arange(ROWS) // SAMPLES,
        rewards=torch.randn(ROWS, generator=generator) if rewards is None else torch.tensor(rewards),
        old_logprobs=-old.abs() * mask,
        ref_logprobs=(-old.abs() + 0.3 * reference) * mask,
        rollout_logprobs=(-old.abs() + 0.5 * rollout) * mask,
        values=values * mask,
    )


def with_those(batch: Batch, config: AlgorithmConfig) -> Batch:
    kl = reward_kl(batch, config) if config.kl_in == "reward" and config.kl_coef else None
    return with_advantages(batch, config, kl, config.kl_coef)


def loss_of(batch: Batch, config: AlgorithmConfig, totals: Totals, theta: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of a policy with log-probs and entropies that depend on `theta[3]`, and on each row's own numbers."""
    assert batch.old_logprobs is not None
    base = batch.old_logprobs
    logprobs = base + theta[0] * base.sin() + theta[1] * base.cos() * 0.3
    return actor_loss((logprobs, theta[2] * base.abs()), batch, config, totals, config.kl_coef)


def loss_and_gradient(parts: list[Batch], config: AlgorithmConfig, totals: Totals) -> tuple[Tensor, Tensor]:
    theta = torch.tensor([0.4, -0.3, 0.7], requires_grad=True)
    losses = [loss_of(part, config, totals, theta)[0] for part in parts]
    for loss in losses:
        loss.backward()  # accumulates, as in an update
    assert theta.grad is not None
    return torch.stack([loss.detach() for loss in losses]).sum(), theta.grad


FULL = {"kl_coef": 0.05, "kl_in": "loss", "kl_estimator": "k3", "entropy_coef": 0.02, "rollout_is": "token"}


@pytest.mark.parametrize("name", ALGORITHMS)
@given(seed=st.integers(0, 2**31), cuts=st.sets(st.integers(1, ROWS - 1)), shuffle=st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_loss_and_gradient_depend_on_neither_split_nor_order(
    name: str, seed: int, cuts: set[int], shuffle: Any
) -> None:
    config = algorithm(name, **FULL)
    whole = with_those(batch_of(seed), config)
    totals = Totals.of(whole.response_mask, max_tokens=20)
    loss, gradient = loss_and_gradient([whole], config, totals)
    order = list(range(ROWS))
    shuffle.shuffle(order)
    mixed = take(whole, torch.tensor(order))
    edges = [0, *sorted(cuts), ROWS]
    parts = [mixed.rows(start, stop) for start, stop in pairwise(edges)]
    found, found_gradient = loss_and_gradient(parts, config, totals)
    torch.testing.assert_close(found, loss, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found_gradient, gradient, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("lengths", [[0] * ROWS, [0, 3, 0, 7] * 3, [1] + [0] * (ROWS - 1)], ids=["none", "some", "one"])
@pytest.mark.parametrize("kl_in", ["loss", "reward"])
def test_empty_responses_give_no_nan(name: str, lengths: list[int], kl_in: str) -> None:
    config = algorithm(name, **FULL | {"kl_in": kl_in})
    batch = with_those(batch_of(0, lengths=lengths), config)
    assert batch.advantages is not None
    assert batch.advantages.isfinite().all()
    assert not batch.advantages[~batch.response_mask].any()
    theta = torch.tensor([0.4, -0.3, 0.7], requires_grad=True)
    loss, stats = loss_of(batch, config, Totals.of(batch.response_mask), theta)
    loss.backward()
    assert theta.grad is not None
    for each in (loss, theta.grad, *stats.values()):
        assert each.isfinite().all()


@pytest.mark.parametrize("name", GROUPED)
def test_groups_of_equal_rewards_have_no_advantage(name: str) -> None:
    config = algorithm(name, kl_coef=0.0)
    batch = with_those(batch_of(1, rewards=[0.1] * 4 + [1.0, 0.0, 1.0, 1.0] + [0.7] * 4), config)
    assert batch.advantages is not None
    flat = ~(batch.advantages != 0).any(dim=1)
    if name != "reinforce_plus_plus_baseline":  # its whitening moves all by the same small amount
        assert flat.tolist() == [True] * 4 + [False] * 4 + [True] * 4


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "dapo", "rloo", "gspo", "cispo"])
def test_leaving_flat_rows_out_changes_neither_loss_nor_gradient(name: str) -> None:
    config = algorithm(name, kl_coef=0.0)
    assert can_skip_flat_rows(config)
    whole = with_those(batch_of(2, rewards=[0.1] * 4 + [1.0, 0.0, 1.0, 1.0] + [0.7] * 4), config)
    totals = Totals.of(whole.response_mask, max_tokens=20)
    loss, gradient = loss_and_gradient([whole], config, totals)
    rest = take(whole, torch.arange(4, 8))
    totals = replace(totals, seen=int(rest.response_mask.sum()))
    found, found_gradient = loss_and_gradient([rest], config, totals)
    torch.testing.assert_close(found, loss, atol=1e-7, rtol=1e-6)
    torch.testing.assert_close(found_gradient, gradient, atol=1e-7, rtol=1e-6)
    assert gradient.any()


def test_stats_are_means_over_the_rows_that_were_seen() -> None:
    config = algorithm("grpo", kl_coef=0.0)
    whole = with_those(batch_of(3), config)
    part = take(whole, torch.arange(5))
    theta = torch.tensor([0.4, -0.3, 0.7])
    alone = loss_of(part, config, Totals.of(part.response_mask), theta)[1]
    totals = replace(Totals.of(whole.response_mask), seen=int(part.response_mask.sum()))
    within = loss_of(part, config, totals, theta)[1]
    for name in ("entropy", "ppo_kl", "rollout_gap", "clip_fraction", "kl"):
        torch.testing.assert_close(within[name], alone[name])


@pytest.mark.parametrize("changes", [{"entropy_coef": 0.1}, {"kl_coef": 0.1}])
def test_rows_with_another_term_are_not_left_out(changes: dict[str, float]) -> None:
    assert not can_skip_flat_rows(algorithm("grpo", **{"kl_coef": 0.0} | changes))
    assert can_skip_flat_rows(algorithm("rloo", kl_coef=0.1))


def test_kl_in_the_reward_is_summed_where_responses_are_compared() -> None:
    config = algorithm("grpo", kl_in="reward", kl_coef=0.1, kl_estimator="k1", norm_adv_by_std="false")
    batch = batch_of(4)
    found = with_those(batch, config).advantages
    assert found is not None
    assert batch.rewards is not None
    kl = (reward_kl(batch, config) * batch.response_mask).sum(1)
    expected = grpo_advantages(batch.rewards - 0.1 * kl, batch.groups, norm_adv_by_std=False)
    torch.testing.assert_close(found, expected[:, None] * batch.response_mask)


def test_the_report_on_the_rollout_is_there_with_and_without_weights() -> None:
    batch = with_those(batch_of(5), algorithm("grpo"))
    theta, totals = torch.tensor([0.0, 0.0, 0.7]), Totals.of(batch.response_mask)
    plain, stats = loss_of(batch, algorithm("grpo", kl_coef=0.0), totals, theta)
    assert {"rollout_gap", "rollout_kl"} <= stats.keys()
    assert "rollout_is_mean" not in stats
    config = algorithm("grpo", kl_coef=0.0, rollout_is="token", rollout_is_threshold=1.5)
    weighted, stats = loss_of(batch, config, totals, theta)
    assert stats["rollout_is_max"] > 1.5 > stats["rollout_is_mean"]
    assert 0 < stats["rollout_is_clipped"] < 1
    assert weighted != plain


def test_joined_batches_keep_their_tokens_and_their_groups() -> None:
    one, other = batch_of(6, lengths=[2] * ROWS).rows(0, 8), batch_of(7, lengths=[5] * ROWS).rows(4, 12)
    narrow = replace(other, input_ids=other.input_ids[:, 1:], attention_mask=other.attention_mask[:, 1:])
    joined = join([one, narrow])
    assert joined.input_ids.shape == (16, 3 + 5)
    assert joined.attention_mask.sum(1).tolist() == [5] * 8 + [7] * 8
    assert joined.response_mask.sum(1).tolist() == [2] * 8 + [5] * 8
    assert joined.groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4
    assert joined.old_logprobs is not None
    assert one.old_logprobs is not None
    torch.testing.assert_close(joined.old_logprobs[:8, :2], one.old_logprobs)
    assert not joined.old_logprobs[:8, 2:].any()
