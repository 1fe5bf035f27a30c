"""Losses against figures that verl 0.9.1, OpenRLHF and Liger agree on, and their behaviour under micro batches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from verlcli.engine.algorithms import LossAggMode, PolicyLoss, Totals, aggregate, kl_penalty, policy_loss, value_loss

MODES: tuple[LossAggMode, ...] = get_args(LossAggMode)
KINDS: tuple[PolicyLoss, ...] = get_args(PolicyLoss)

# Inputs and results of the three-way comparison of verl 0.9.1, OpenRLHF and Liger (equal to 7 digits).
LOGPROBS = torch.tensor([[-0.2, -0.4, -0.1], [-0.7, -0.3, -0.2], [-0.6, -0.1, -0.5]])
OLD = LOGPROBS - torch.tensor([[0.3, -0.4, 0.01], [0.02, 0.5, -0.03], [-0.6, 0.0, -0.02]])
REFERENCE = LOGPROBS + torch.tensor([[0.1, -0.2, 0.3], [0.0, 0.05, -0.1], [0.2, 0.1, -0.4]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 1]])
ADVANTAGES = torch.tensor([[1.0], [-0.8], [-2.0]]).expand(3, 3)


def frozen_loss(**changes: Any) -> Tensor:
    arguments: dict[str, Any] = {"clip_low": 0.2, "clip_high": 0.2, "mode": "token-mean", "totals": Totals.of(MASK)}
    return policy_loss(LOGPROBS, OLD, ADVANTAGES, MASK, **{**arguments, **changes})[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"mode": "token-mean"}, 0.6573674),
        ({"mode": "seq-mean-token-mean"}, 0.6051789),
        ({"mode": "seq-mean-token-sum"}, 1.5338573),
        ({"mode": "seq-mean-token-sum-norm"}, 0.5112858),
        ({"clip_c": 1.5}, 0.6403707),
        ({"clip_c": 3.0}, 0.6573674),
        ({"clip_high": 0.28}, 0.6459389),
        ({"kind": "gspo", "mode": "seq-mean-token-mean"}, 0.5302380),
    ],
)
def test_policy_loss_equals_the_three_way_reference(changes: dict[str, Any], expected: float) -> None:
    assert frozen_loss(**changes).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("estimator", "expected"), [("k1", 0.05), ("k2", 0.01875), ("k3", 0.0173904)])
def test_kl_equals_the_three_way_reference(estimator: Any, expected: float) -> None:
    kl = aggregate(kl_penalty(LOGPROBS, REFERENCE, estimator), MASK, "token-mean", Totals.of(MASK))
    assert kl.item() == pytest.approx(expected, abs=1e-6)


def test_clip_fraction_counts_only_strictly_greater_losses() -> None:
    # Clipped: exp(.3) > 1.2 with A > 0, and exp(-.6) < .8 with A < 0. Not: exp(-.4) with A > 0, exp(.5) with A < 0, and
    # the ratios inside the interval, where both losses are equal.
    _, stats = policy_loss(
        LOGPROBS, OLD, ADVANTAGES, MASK, clip_low=0.2, clip_high=0.2, mode="token-mean", totals=Totals.of(MASK)
    )
    assert stats["clip_fraction"].item() == pytest.approx(2 / 7)
    assert stats["ppo_kl"].item() == pytest.approx(-(0.3 - 0.4 + 0.02 + 0.5 - 0.03 - 0.6 - 0.02) / 7, abs=1e-6)


def test_dual_clip_bounds_only_negative_advantages() -> None:
    logprobs, old = torch.tensor([[0.0, 0.0]]), torch.tensor([[-3.0, -3.0]])
    advantages, mask = torch.tensor([[1.0, -1.0]]), torch.ones(1, 2)
    totals = Totals.of(mask)
    loss, stats = policy_loss(
        logprobs, old, advantages, mask, clip_low=0.2, clip_high=0.2, clip_c=3.0, mode="token-mean", totals=totals
    )
    assert loss.item() == pytest.approx((-1.2 + 3.0) / 2)
    assert stats["clip_fraction_lower"].item() == 0.5


def test_dual_clip_bound_of_one_or_less_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than 1"):
        frozen_loss(clip_c=1.0)


def test_the_log_ratio_is_limited_to_20() -> None:
    logprobs = torch.tensor([[0.0]], requires_grad=True)
    mask = torch.ones(1, 1)
    loss, stats = policy_loss(
        logprobs,
        torch.tensor([[-500.0]]),
        torch.tensor([[-1.0]]),
        mask,
        clip_low=0.2,
        clip_high=0.2,
        mode="token-mean",
        totals=Totals.of(mask),
    )
    assert loss.item() == pytest.approx(math.exp(20), rel=1e-5)
    assert stats["ppo_kl"].item() == -20.0


def test_on_policy_gradient_is_that_of_reinforce() -> None:
    logprobs = LOGPROBS.clone().requires_grad_()
    loss, _ = policy_loss(
        logprobs,
        logprobs.detach(),
        ADVANTAGES,
        MASK,
        clip_low=0.2,
        clip_high=0.2,
        clip_c=3.0,
        mode="token-mean",
        totals=Totals.of(MASK),
    )
    loss.backward()
    torch.testing.assert_close(logprobs.grad, -ADVANTAGES * MASK / MASK.sum())


def test_value_loss_takes_the_worse_of_plain_and_clipped() -> None:
    mask = torch.ones(1, 3)
    loss, stats = value_loss(
        torch.tensor([[1.0, 1.0, 0.1]]),
        torch.tensor([[0.0, 2.0, 0.0]]),
        torch.tensor([[2.0, 2.0, 0.0]]),
        mask,
        value_clip=0.5,
        totals=Totals.of(mask),
    )
    # (1-2)^2 against (.5-2)^2; (1-2)^2 against (1.5-2)^2; inside the clip both are .1^2.
    assert loss.item() == pytest.approx((1.5**2 + 1.0 + 0.01) / 2 / 3)
    assert stats["value_clip_fraction"].item() == pytest.approx(1 / 3)


def test_gspo_gives_every_token_the_ratio_of_its_sequence() -> None:
    # Mean log ratios 0.3 and -0.1; nothing is clipped. The value is exp(mean), the gradient the token's own.
    logprobs = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -1.0, -9.0]], requires_grad=True)
    old = torch.tensor([[-1.5, -2.1, -3.3], [-1.2, -0.6, 5.0]])
    mask, advantages = torch.tensor([[1, 1, 1], [1, 1, 0]]), torch.tensor([[2.0], [-1.0]])
    loss, _ = policy_loss(
        logprobs,
        old,
        advantages,
        mask,
        kind="gspo",
        clip_low=0.5,
        clip_high=0.5,
        mode="seq-mean-token-mean",
        totals=Totals.of(mask),
    )
    loss.backward()
    first, second = math.exp(0.3), math.exp(-0.1)
    assert loss.item() == pytest.approx((-2 * first + second) / 2)
    expected = torch.tensor([[-2 * first / 6] * 3, [second / 4, second / 4, 0.0]])
    torch.testing.assert_close(logprobs.grad, expected)


def test_cispo_keeps_the_gradient_of_a_clipped_token() -> None:
    logprobs = torch.tensor([[-0.5, -0.5]], requires_grad=True)
    old, mask, advantages = torch.tensor([[-2.5, -0.5]]), torch.ones(1, 2), torch.tensor([[1.0, -3.0]])
    loss, stats = policy_loss(
        logprobs,
        old,
        advantages,
        mask,
        kind="cispo",
        clip_low=1.0,
        clip_high=0.2,
        mode="token-mean",
        totals=Totals.of(mask),
    )
    loss.backward()
    # Weights min(e^2, 1.2) = 1.2 and 1; the loss is -w A log pi.
    assert loss.item() == pytest.approx((1.2 * 0.5 + 1 * -3 * 0.5) / 2)
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-1.2 / 2, 3.0 / 2]]))
    assert stats["clip_fraction"].item() == 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_weights_scale_each_tokens_loss_and_carry_no_gradient(kind: PolicyLoss) -> None:
    weights = torch.tensor([[2.0, 0.5, 0.0], [1.0, 1.5, 0.25], [2.0, 0.0, 1.0]])

    def gradient(w: Tensor | None) -> Tensor:
        leaf = LOGPROBS.clone().requires_grad_()
        loss, _ = policy_loss(
            leaf,
            OLD,
            ADVANTAGES,
            MASK,
            kind=kind,
            clip_low=0.2,
            clip_high=0.2,
            weights=w,
            mode="token-mean",
            totals=Totals.of(MASK),
        )
        return torch.autograd.grad(loss, leaf)[0]

    torch.testing.assert_close(gradient(weights), gradient(None) * weights)


def test_an_unknown_policy_loss_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="clip, gspo, cispo"):
        frozen_loss(kind="ppo")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(7, 1), (1,) * 8, (3, 3, 2), (5, 3)])
def test_losses_stats_and_gradients_do_not_depend_on_the_split(
    kind: PolicyLoss, mode: LossAggMode, sizes: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    old, advantages = -torch.rand(8, 6, dtype=torch.float64), torch.randn(8, 1, dtype=torch.float64)
    logprobs = (old + 0.4 * torch.randn_like(old)).requires_grad_()
    mask = torch.arange(6) < torch.tensor([6, 1, 3, 0, 5, 2, 2, 4])[:, None]
    totals = Totals.of(mask, max_tokens=10)

    def run(rows: slice) -> tuple[Tensor, dict[str, Tensor]]:
        return policy_loss(
            logprobs[rows],
            old[rows],
            advantages[rows],
            mask[rows],
            kind=kind,
            clip_low=0.2,
            clip_high=0.3,
            clip_c=3.0,
            mode=mode,
            totals=totals,
        )

    whole, whole_stats = run(slice(0, 8))
    (whole_gradient,) = torch.autograd.grad(whole, logprobs)
    loss, stats, start = torch.zeros((), dtype=torch.float64), dict.fromkeys(whole_stats, 0.0), 0
    for size in sizes:
        part, part_stats = run(slice(start, start + size))
        part.backward()  # accumulates
        loss += part.detach()
        stats = {name: value + part_stats[name].item() for name, value in stats.items()}
        start += size
    torch.testing.assert_close(loss, whole.detach())
    torch.testing.assert_close(logprobs.grad, whole_gradient)
    assert stats == pytest.approx({name: value.item() for name, value in whole_stats.items()}, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_nothing_masked_in_gives_zero_and_a_zero_gradient(mode: LossAggMode, kind: PolicyLoss) -> None:
    logprobs = torch.randn(2, 3, requires_grad=True)
    mask = torch.zeros(2, 3)
    loss, stats = policy_loss(
        logprobs,
        torch.zeros(2, 3),
        torch.ones(2, 3),
        mask,
        kind=kind,
        clip_low=0.2,
        clip_high=0.2,
        mode=mode,
        totals=Totals.of(mask),
    )
    loss.backward()
    assert loss.item() == 0
    assert not logprobs.grad.any()  # type: ignore[union-attr]
    assert all(value.item() == 0 for value in stats.values())


def test_a_value_that_is_not_finite_outside_the_mask_does_not_enter() -> None:
    losses = torch.tensor([[1.0, float("nan")], [3.0, float("inf")]])
    mask = torch.tensor([[1, 0], [1, 0]])
    assert [aggregate(losses, mask, mode, Totals.of(mask)).item() for mode in MODES] == [2.0, 2.0, 2.0, 1.0]


def test_empty_sequences_are_no_divisor() -> None:
    mask = torch.tensor([[1, 1], [0, 0]])
    assert Totals.of(mask) == Totals(tokens=2, sequences=1, max_tokens=2)


def test_an_unknown_mode_lists_the_choices() -> None:
    bad: Any = "mean"
    with pytest.raises(ValueError, match="token-mean, seq-mean-token-sum"):
        aggregate(LOGPROBS, MASK, bad, Totals.of(MASK))


@given(
    seed=st.integers(0, 2**31),
    rows=st.integers(1, 5),
    width=st.integers(1, 6),
    scale=st.sampled_from([0.0, 1.0, 1e3]),
    mode=st.sampled_from(MODES),
    kind=st.sampled_from(KINDS),
)
@settings(max_examples=100, deadline=None)
def test_any_input_gives_a_finite_loss_and_gradient(
    seed: int, rows: int, width: int, scale: float, mode: LossAggMode, kind: PolicyLoss
) -> None:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(rows, width, generator=generator) < 0.6
    logprobs = (-scale * torch.rand(rows, width, generator=generator)).requires_grad_()
    old = -scale * torch.rand(rows, width, generator=generator)
    advantages = torch.randn(rows, width, generator=generator)
    totals = replace(Totals.of(mask), max_tokens=width)
    loss, _ = policy_loss(
        logprobs, old, advantages, mask, kind=kind, clip_low=0.2, clip_high=0.2, clip_c=3.0, mode=mode, totals=totals
    )
    loss.backward()
    assert loss.isfinite()
    assert logprobs.grad is not None
    assert logprobs.grad.isfinite().all()
    assert not logprobs.grad[~mask].any()
