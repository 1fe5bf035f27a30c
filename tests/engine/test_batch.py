"""Cutting and splitting a batch loses padding only."""

from __future__ import annotations

import torch

from verlcli.engine.batch import Batch, left_pad


def make_batch() -> Batch:
    ids, mask = left_pad([[1, 2], [3], [4, 5, 6]], 0, torch.device("cpu"))
    responses = torch.tensor([[7, 8, 0, 0], [9, 0, 0, 0], [7, 8, 9, 2]])
    response_mask = responses != 0
    return Batch(
        input_ids=torch.cat([ids, responses], 1),
        attention_mask=torch.cat([mask, response_mask.long()], 1),
        response_mask=response_mask,
        groups=torch.tensor([0, 0, 1]),
        rewards=torch.tensor([1.0, 2.0, 3.0]),
        advantages=torch.arange(12.0).view(3, 4),
    )


def test_rows_are_cut_to_their_longest_prompt_and_response() -> None:
    cut = make_batch().rows(0, 2)
    assert cut.input_ids.tolist() == [[1, 2, 7, 8], [0, 3, 9, 0]]
    assert cut.attention_mask.tolist() == [[1, 1, 1, 1], [0, 1, 1, 0]]
    assert cut.response_mask.tolist() == [[True, True], [True, False]]
    assert cut.advantages is not None
    assert cut.advantages.tolist() == [[0.0, 1.0], [4.0, 5.0]]
    assert cut.rewards is not None
    assert cut.rewards.tolist() == [1.0, 2.0]
    assert cut.responses.tolist() == [[7, 8], [9, 0]]


def test_positions_start_at_the_first_real_token() -> None:
    assert make_batch().position_ids[0].tolist() == [0, 0, 1, 2, 3, 3, 3]


def test_split_covers_every_row_once_and_the_last_may_be_smaller() -> None:
    parts = make_batch().split(2)
    assert [len(p) for p in parts] == [2, 1]
    assert torch.cat([p.groups for p in parts]).tolist() == [0, 0, 1]
    assert parts[1].input_ids.tolist() == [[4, 5, 6, 7, 8, 9, 2]]


def test_a_batch_of_empty_responses_keeps_one_column() -> None:
    batch = make_batch()
    empty = batch.with_(response_mask=torch.zeros_like(batch.response_mask))
    assert empty.rows(0, 2).response_width == 1
