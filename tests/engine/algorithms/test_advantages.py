"""GRPO's group baseline, GAE and whitening."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from verlcli.engine.algorithms import (
    gae,
    grpo_advantages,
    reinforce_advantages,
    reinforce_baseline_advantages,
    rloo_advantages,
    whiten,
)


def naive_gae(
    rewards: list[float], values: list[float], mask: list[int], gamma: float, lam: float
) -> tuple[list[float], list[float]]:
    """The definition, over the tokens that count alone: A_t = sum_k (gamma lam)^k delta_{t+k}."""
    kept = [t for t, on in enumerate(mask) if on]
    advantages, returns = [0.0] * len(mask), [0.0] * len(mask)
    for i, t in enumerate(kept):
        total = 0.0
        for k in range(i, len(kept)):
            following = values[kept[k + 1]] if k + 1 < len(kept) else 0.0
            delta = rewards[kept[k]] + gamma * following - values[kept[k]]
            total += (gamma * lam) ** (k - i) * delta
        advantages[t], returns[t] = total, total + values[t]
    return advantages, returns


def random_case(seed: int, rows: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, rows, width, generator=generator, dtype=torch.float64)
    return rewards, values, torch.rand(rows, width, generator=generator) < 0.7


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 4),
    width=st.integers(1, 9),
    gamma=st.sampled_from([0.0, 0.9, 1.0]),
    lam=st.sampled_from([0.0, 0.95, 1.0]),
)
@settings(max_examples=100, deadline=None)
def test_gae_equals_its_definition_over_the_tokens_that_count(
    seed: int, rows: int, width: int, gamma: float, lam: float
) -> None:
    rewards, values, mask = random_case(seed, rows, width)
    advantages, returns = gae(rewards, values, mask, gamma=gamma, lam=lam)
    for row in range(rows):
        expected = naive_gae(rewards[row].tolist(), values[row].tolist(), mask[row].int().tolist(), gamma, lam)
        assert advantages[row].tolist() == pytest.approx(expected[0], abs=1e-12)
        assert returns[row].tolist() == pytest.approx(expected[1], abs=1e-12)


def test_gae_gradient_equals_that_of_the_definition() -> None:
    rewards, values, mask = random_case(1, 3, 5)
    assert torch.autograd.gradcheck(
        lambda r, v: gae(r, v, mask, gamma=0.9, lam=0.8), (rewards.requires_grad_(), values.requires_grad_())
    )


def test_gae_looks_past_observation_tokens() -> None:
    # The same trajectory with two observation tokens (mask 0) in the middle, whose values and rewards are noise.
    short = gae(torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[0.5, 0.4, 0.3]]), torch.ones(1, 3), gamma=0.9, lam=0.8)
    long = gae(
        torch.tensor([[0.0, 7.0, -7.0, 0.0, 1.0]]),
        torch.tensor([[0.5, 9.0, -9.0, 0.4, 0.3]]),
        torch.tensor([[1, 0, 0, 1, 1]]),
        gamma=0.9,
        lam=0.8,
    )
    for of_short, of_long in zip(short, long, strict=True):
        torch.testing.assert_close(of_long[:, [0, 3, 4]], of_short)
        assert of_long[:, [1, 2]].tolist() == [[0, 0]]


def test_gae_with_gamma_and_lambda_one_gives_the_plain_return() -> None:
    rewards, values, mask = random_case(2, 2, 6)
    _, returns = gae(rewards, values, mask, gamma=1.0, lam=1.0)
    to_go = (rewards * mask).flip(1).cumsum(1).flip(1) * mask
    torch.testing.assert_close(returns, to_go)


def test_whiten_gives_mean_zero_and_unbiased_variance_one_inside_the_mask() -> None:
    values, _, mask = random_case(3, 8, 20)
    inside = whiten(values * 5 + 2, mask)[mask]
    assert inside.mean().item() == pytest.approx(0, abs=1e-12)
    assert inside.var(correction=1).item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("mask", [torch.zeros(2, 3), torch.tensor([[0, 1, 0], [0, 0, 0]])])
def test_whiten_of_fewer_than_two_tokens_is_zero(mask: Tensor) -> None:
    assert not whiten(torch.full((2, 3), 7.0), mask).any()


def test_whiten_ignores_what_is_outside_the_mask() -> None:
    values = torch.tensor([[1.0, 3.0, float("nan")]])
    assert whiten(values, torch.tensor([[1, 1, 0]])).tolist() == [
        pytest.approx([-(0.5**0.5), 0.5**0.5, 0.0], abs=1e-6),
    ]


def test_grpo_uses_the_bessel_corrected_std_of_each_group() -> None:
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0, 5.0, 7.0])
    group = torch.tensor([0, 0, 0, 0, 9, 9])
    expected = [0.25 / (0.5 + 1e-6), -0.75 / (0.5 + 1e-6)] + [0.25 / (0.5 + 1e-6)] * 2
    expected += [-1 / (2**0.5 + 1e-6), 1 / (2**0.5 + 1e-6)]
    assert grpo_advantages(rewards, group).tolist() == pytest.approx(expected, rel=1e-6)


def test_grpo_without_std_is_the_deviation_from_the_mean() -> None:
    advantages = grpo_advantages(torch.tensor([3.0, 1.0, 4.0]), torch.tensor([2, 2, 2]), norm_adv_by_std=False)
    assert advantages.tolist() == pytest.approx([1 / 3, -5 / 3, 4 / 3])


@pytest.mark.parametrize("norm_adv_by_std", [True, False])
def test_grpo_group_of_one_keeps_its_reward(norm_adv_by_std: bool) -> None:
    advantages = grpo_advantages(
        torch.tensor([2.0, 1.0, 3.0]), torch.tensor([0, 1, 1]), norm_adv_by_std=norm_adv_by_std
    )
    assert advantages[0].item() == pytest.approx(2.0, rel=1e-5)


def test_grpo_order_of_samples_and_group_ids_do_not_matter() -> None:
    rewards, group = torch.randn(12), torch.arange(12) // 4
    order = torch.randperm(12)
    shuffled = grpo_advantages(rewards[order], group[order] * 100 - 7)
    torch.testing.assert_close(shuffled, grpo_advantages(rewards, group)[order])


def test_grpo_takes_integer_rewards() -> None:
    assert grpo_advantages(torch.tensor([0, 1]), torch.tensor([0, 0])).dtype == torch.float32


@given(reward=st.floats(-1e6, 1e6, width=32), size=st.integers(2, 64), norm_adv_by_std=st.booleans())
def test_grpo_equal_rewards_give_exactly_zero(reward: float, size: int, norm_adv_by_std: bool) -> None:
    rewards, group = torch.full((size,), reward), torch.zeros(size, dtype=torch.long)
    assert not grpo_advantages(rewards, group, norm_adv_by_std=norm_adv_by_std).any()


@given(rewards=st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=32))
def test_grpo_advantages_of_a_group_sum_to_zero_and_are_finite(rewards: list[float]) -> None:
    advantages = grpo_advantages(torch.tensor(rewards), torch.zeros(len(rewards), dtype=torch.long))
    assert advantages.isfinite().all()
    assert advantages.double().sum().item() == pytest.approx(0, abs=1e-4)


def test_rloo_is_the_distance_to_the_mean_of_the_others() -> None:
    rewards, group = torch.tensor([1.0, 2.0, 6.0, 5.0, 4.0]), torch.tensor([7, 7, 7, 3, 3])
    expected = [1 - 4, 2 - 3.5, 6 - 1.5, 5 - 4, 4 - 5]
    assert rloo_advantages(rewards, group).tolist() == pytest.approx(expected)


def test_rloo_group_of_one_keeps_its_reward() -> None:
    assert rloo_advantages(torch.tensor([2.0, 1.0, 3.0]), torch.tensor([0, 1, 1])).tolist() == [2.0, -2.0, 2.0]


@given(reward=st.floats(-1e6, 1e6, width=32), size=st.integers(2, 64))
def test_rloo_equal_rewards_give_exactly_zero(reward: float, size: int) -> None:
    assert not rloo_advantages(torch.full((size,), reward), torch.zeros(size, dtype=torch.long)).any()


def test_reinforce_returns_are_discounted_over_the_tokens_that_count() -> None:
    rewards = torch.tensor([[0.0, 9.0, 1.0, 2.0], [1.0, 0.0, 0.0, 5.0]])
    mask = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0]])
    advantages, returns = reinforce_advantages(rewards, mask, gamma=0.5)
    assert returns.tolist() == [[1.0, 0.0, 2.0, 2.0], [1.0, 0.0, 0.0, 0.0]]
    torch.testing.assert_close(advantages, whiten(returns, mask))


def test_reinforce_with_a_baseline_whitens_what_differs_from_the_group() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [0, 0, 0]])
    advantages = reinforce_baseline_advantages(torch.tensor([1.0, 0.0, 5.0, 5.0]), torch.tensor([0, 0, 1, 1]), mask)
    centred = torch.tensor([[0.5] * 3, [-0.5, 0, 0], [0.0] * 3, [0.0] * 3])
    torch.testing.assert_close(advantages, whiten(centred, mask))
    assert advantages[mask.bool()].mean().item() == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("empty", ["one row", "all rows"])
def test_responses_without_tokens_give_no_nan(empty: str) -> None:
    mask = torch.zeros(4, 3) if empty == "all rows" else torch.tensor([[1, 1, 1], [0, 0, 0], [1, 0, 0], [1, 1, 0]])
    rewards, group = torch.tensor([1.0, 0.0, 0.5, 0.0]), torch.tensor([0, 0, 1, 1])
    of_tokens = torch.rand(4, 3)
    found = [
        *gae(of_tokens, torch.rand(4, 3), mask, gamma=0.9, lam=0.9),
        *reinforce_advantages(of_tokens, mask, gamma=0.9),
        reinforce_baseline_advantages(rewards, group, mask),
        grpo_advantages(rewards, group)[:, None] * mask,
        rloo_advantages(rewards, group)[:, None] * mask,
    ]
    for each in found:
        assert each.isfinite().all()
        assert not each[mask == 0].any()


@given(seed=st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_advantages_do_not_depend_on_the_order_of_rows(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards, group = torch.randn(12, generator=generator), torch.arange(12) // 3
    of_tokens, values, mask = random_case(seed, 12, 6)
    of_tokens, values = of_tokens.float(), values.float()
    order = torch.randperm(12, generator=generator)
    pairs = [
        (grpo_advantages(rewards[order], group[order]), grpo_advantages(rewards, group)),
        (rloo_advantages(rewards[order], group[order]), rloo_advantages(rewards, group)),
        (
            reinforce_baseline_advantages(rewards[order], group[order], mask[order]),
            reinforce_baseline_advantages(rewards, group, mask),
        ),
        (
            reinforce_advantages(of_tokens[order], mask[order], gamma=0.9)[0],
            reinforce_advantages(of_tokens, mask, gamma=0.9)[0],
        ),
        (
            whiten(gae(of_tokens[order], values[order], mask[order], gamma=0.9, lam=0.9)[0], mask[order]),
            whiten(gae(of_tokens, values, mask, gamma=0.9, lam=0.9)[0], mask),
        ),
    ]
    for shuffled, plain in pairs:
        torch.testing.assert_close(shuffled, plain[order], atol=1e-6, rtol=1e-6)
