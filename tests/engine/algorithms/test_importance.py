"""Weights for a sampler that is not quite the trainer, and the report on them."""

from __future__ import annotations

import math

import pytest
import torch

from verlcli.engine.algorithms import Totals, mismatch, raw_weights, truncated_weights, weight_report

OLD = torch.tensor([[-1.0, -1.0, -1.0, -1.0]], requires_grad=True)
ROLLOUT = torch.tensor([[-1.0, -1.5, -3.0, float("nan")]])
MASK = torch.tensor([[1, 1, 1, 0]])


def test_a_weight_is_the_ratio_of_trainer_and_sampler_cut_to_the_threshold() -> None:
    weights = truncated_weights(OLD, ROLLOUT, MASK, threshold=2.0)
    assert weights.tolist() == [[1.0, pytest.approx(math.exp(0.5)), 2.0, 0.0]]
    assert not weights.requires_grad


def test_a_weight_is_finite_whatever_the_sampler_said() -> None:
    raw = raw_weights(torch.zeros(1, 2), torch.tensor([[-1e9, 1e9]]), torch.ones(1, 2))
    assert raw.tolist() == [[pytest.approx(math.exp(20)), pytest.approx(math.exp(-20))]]


def test_the_report_tells_mean_share_and_distance() -> None:
    totals = Totals.of(MASK)
    report = weight_report(raw_weights(OLD, ROLLOUT, MASK), MASK, totals, threshold=2.0)
    assert report["rollout_is_mean"].item() == pytest.approx((1 + math.exp(0.5) + 2) / 3)
    assert report["rollout_is_clipped"].item() == pytest.approx(1 / 3)
    found = mismatch(OLD, ROLLOUT, MASK, totals)
    assert found["rollout_gap"].item() == pytest.approx(2.5 / 3)
    assert found["rollout_kl"].item() == pytest.approx((math.exp(0.5) - 1.5 + math.exp(2) - 3) / 3)


def test_the_same_policy_has_weights_of_one() -> None:
    assert truncated_weights(OLD, OLD, MASK, threshold=2.0).tolist() == [[1.0, 1.0, 1.0, 0.0]]
    assert mismatch(OLD, OLD, MASK, Totals.of(MASK)) == {"rollout_gap": 0.0, "rollout_kl": 0.0}
