"""DAPO's length penalty and its groups."""

from __future__ import annotations

import pytest
import torch

from verlcli.engine.algorithms import overlong_penalty, unequal_groups


def test_the_penalty_falls_linearly_within_the_buffer() -> None:
    lengths = torch.tensor([0, 100, 160, 161, 180, 200])
    penalty = overlong_penalty(lengths, max_tokens=200, buffer=40)
    assert penalty.tolist() == pytest.approx([0, 0, 0, -1 / 40, -0.5, -1])
    assert overlong_penalty(lengths, max_tokens=200, buffer=40, factor=0.5)[-1].item() == -0.5


def test_without_a_buffer_there_is_no_penalty() -> None:
    assert overlong_penalty(torch.tensor([3, 200]), max_tokens=200, buffer=0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("buffer", [-1, 201])
def test_a_buffer_outside_the_response_is_refused(buffer: int) -> None:
    with pytest.raises(ValueError, match="does not lie within responses of 200"):
        overlong_penalty(torch.tensor([3]), max_tokens=200, buffer=buffer)


def test_a_group_counts_where_any_reward_differs() -> None:
    rewards = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.1, 0.1, 0.1])
    assert unequal_groups(rewards, 3).tolist() == [False, True, False]
    assert not unequal_groups(rewards, 1).any()
