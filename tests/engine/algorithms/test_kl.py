"""KL estimators and the reward that carries them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from verlcli.engine.algorithms import adapted_kl_coef, kl_penalty, rewards_with_kl, sequence_kl


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl_of_equal_policies_is_zero(estimator: Any) -> None:
    logprobs = -torch.rand(2, 3)
    assert not kl_penalty(logprobs, logprobs, estimator).any()


@pytest.mark.parametrize("distance", [-100.0, 100.0])
def test_k3_is_clamped_to_10_and_stays_finite(distance: float) -> None:
    kl = kl_penalty(torch.zeros(1, 1), torch.full((1, 1), distance), "k3")
    assert kl.item() == 10.0


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_k1_and_k3_are_unbiased(estimator: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    policy, reference = torch.tensor([0.5, 0.3, 0.2]).log(), torch.tensor([0.3, 0.3, 0.4]).log()
    samples = torch.multinomial(policy.exp(), 200_000, replacement=True, generator=generator)
    exact = (policy.exp() * (policy - reference)).sum().item()
    estimate = kl_penalty(policy[samples], reference[samples], estimator).mean().item()
    assert estimate == pytest.approx(exact, abs=0.01)


def test_k2_has_the_gradient_of_the_kl_divergence() -> None:
    logits = torch.tensor([0.4, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64).log()
    policy = logits.log_softmax(-1)
    (exact,) = torch.autograd.grad((policy.exp() * (policy - reference)).sum(), logits, retain_graph=True)
    # Expectation over the policy's samples of the gradient of k2, weights held fixed as in a batch of samples.
    (of_k2,) = torch.autograd.grad((policy.exp().detach() * kl_penalty(policy, reference, "k2")).sum(), logits)
    torch.testing.assert_close(of_k2, exact)


def test_an_unknown_estimator_lists_the_choices() -> None:
    bad: Any = "k4"
    with pytest.raises(ValueError, match="k1, k2 or k3"):
        kl_penalty(torch.zeros(1, 1), torch.zeros(1, 1), bad)


def test_the_score_stands_at_the_last_token_that_counts() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 0, 1], [1, 0, 0], [0, 0, 0]])
    rewards = rewards_with_kl(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.full((4, 3), 0.5), mask, kl_coef=0.1)
    expected = [[-0.05, -0.05, 0.95], [-0.05, 0.0, 1.95], [2.95, 0.0, 0.0], [0.0, 0.0, 0.0]]
    torch.testing.assert_close(rewards, torch.tensor(expected))


def test_without_a_coefficient_the_kl_is_not_looked_at() -> None:
    rewards = rewards_with_kl(torch.tensor([1.0]), torch.full((1, 2), float("nan")), torch.ones(1, 2), kl_coef=0.0)
    assert rewards.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("kl", "expected"),
    [
        (0.1, 0.01),  # at its target
        (0.11, 0.01 * (1 + 0.1 * 64 / 1000)),
        (0.5, 0.01 * (1 + 0.2 * 64 / 1000)),  # no further than a fifth
        (0.0, 0.01 * (1 - 0.2 * 64 / 1000)),
    ],
)
def test_the_coefficient_follows_the_distance(kl: float, expected: float) -> None:
    assert adapted_kl_coef(0.01, kl, target=0.1, horizon=1000, sequences=64) == pytest.approx(expected, rel=1e-12)


def test_the_measured_distance_counts_every_response_alike() -> None:
    kl = torch.tensor([[0.1, 0.3, float("nan")], [0.4, 0.0, 0.0], [9.0, 9.0, 9.0]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert sequence_kl(kl, mask) == pytest.approx((0.2 + 0.4 + 0.0) / 3)


@pytest.mark.parametrize("kl", [float("nan"), float("inf"), float("-inf")])
def test_a_distance_that_is_not_finite_leaves_the_coefficient(kl: float) -> None:
    assert adapted_kl_coef(0.01, kl, target=0.1, horizon=1000, sequences=64) == 0.01


def test_a_horizon_shorter_than_a_step_turns_no_sign() -> None:
    assert adapted_kl_coef(0.01, 0.0, target=0.1, horizon=10, sequences=640) == 0.005
