"""Packing drops padding and nothing else; micro batches keep every row once, below the budget, of about equal work."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from verlcli.engine.batch import Batch, left_pad
from verlcli.engine.packing import Cost, MicroBatches, balance, by_tokens, pack, pack_rows


def make_batch() -> Batch:
    ids, mask = left_pad([[1, 2], [3], [4, 5, 6]], 0, torch.device("cpu"))
    responses = torch.tensor([[7, 8, 0, 0], [9, 0, 0, 0], [7, 8, 9, 2]])
    response_mask = responses != 0
    return Batch(
        input_ids=torch.cat([ids, responses], 1),
        attention_mask=torch.cat([mask, response_mask.long()], 1),
        response_mask=response_mask,
        groups=torch.tensor([0, 0, 1]),
    )


def test_packing_drops_padding_and_knows_what_predicts_what() -> None:
    packed = pack(make_batch())
    assert packed.input_ids.tolist() == [[1, 2, 7, 8, 3, 9, 4, 5, 6, 7, 8, 9, 2]]
    assert packed.position_ids.tolist() == [[0, 1, 2, 3, 0, 1, 0, 1, 2, 3, 4, 5, 6]]
    assert packed.cu_seqlens.tolist() == [0, 4, 6, 13]
    assert packed.cu_seqlens.dtype == torch.int32
    assert packed.max_length == 8
    assert packed.targets.tolist() == [7, 8, 9, 7, 8, 9, 2]
    assert packed.input_ids[0, packed.predict].tolist() == [2, 7, 3, 6, 7, 8, 9]


def test_rows_of_tokens_are_packed_as_the_batch_of_them_is() -> None:
    batch = pack(make_batch())
    rows = pack_rows([[1, 2, 7, 8], [3, 9], [4, 5, 6, 7, 8, 9, 2]], torch.device("cpu"))
    for name, wanted in batch.model_inputs().items():
        given = rows.model_inputs()[name]
        assert given.equal(wanted) if isinstance(wanted, torch.Tensor) else given == wanted


def test_scatter_puts_results_where_the_tokens_are() -> None:
    batch = make_batch()
    packed = pack(batch)
    assert packed.scatter(packed.targets).tolist() == batch.responses.tolist()


def test_a_sequence_without_a_response_is_packed_and_predicts_nothing() -> None:
    batch = make_batch()
    none = torch.zeros_like(batch.response_mask)
    mask = batch.attention_mask.clone()
    mask[:, -4:] = 0
    packed = pack(batch.with_(response_mask=none, attention_mask=mask))
    assert packed.input_ids.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert packed.predict.numel() == 0
    assert packed.scatter(torch.zeros(0)).tolist() == [[0.0] * 4] * 3


@given(
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=40),
    budget=st.integers(1, 300),
    quadratic=st.floats(0, 1),
)
def test_every_sequence_is_in_one_micro_batch_below_the_budget(
    lengths: list[int], budget: int, quadratic: float
) -> None:
    groups = balance(lengths, budget, Cost(1.0, quadratic))
    assert sorted(i for group in groups for i in group) == list(range(len(lengths)))
    assert all(group == sorted(group) for group in groups)
    assert all(len(group) == 1 or sum(lengths[i] for i in group) <= budget for group in groups)


def test_micro_batches_have_equal_work_rather_than_equal_tokens() -> None:
    lengths = [100, 50, 50, 40, 30, 30]
    cost = Cost(1.0, 1.0)
    groups = balance(lengths, 200, cost)
    assert len(groups) == 2
    works = [sum(cost.of(lengths[i]) for i in group) for group in groups]
    assert max(works) / min(works) < 1.25
    assert [0] in groups  # the longest sequence weighs as much as all others


def test_results_come_back_in_the_order_of_the_rows() -> None:
    batch = make_batch()
    parts = by_tokens(batch, 9, Cost(1.0, 0.0))
    assert [len(p) for p in parts] != [3]
    firsts = torch.cat([p.responses[:, 0] for p in parts])
    assert parts.restore(firsts).tolist() == batch.responses[:, 0].tolist()
    assert MicroBatches([batch]).restore(firsts) is firsts


def test_work_of_a_layer_counts_weights_and_causal_attention() -> None:
    class Config:
        hidden_size, num_attention_heads, num_key_value_heads, intermediate_size = 8, 4, 2, 16

    cost = Cost.of_model(Config)
    assert cost.linear == 2 * (8 * 8 * 2 + 2 * 8 * 4 + 3 * 8 * 16)
    assert cost.quadratic == 2 * 8
    assert cost.of(3) == 3 * cost.linear + 9 * cost.quadratic


@pytest.mark.parametrize("lengths", [[8200] * 2048, [8200] * 2047 + [1], [1 + 7 * i % 8191 for i in range(2048)]])
def test_thousands_of_sequences_are_spread_in_no_time(lengths: list[int]) -> None:
    started = time.process_time()
    groups = balance(lengths, 16384, Cost(1e6, 10.0))
    assert time.process_time() - started < 2  # seconds; 0.3 here, and minutes with a restart for each group more
    assert sorted(i for group in groups for i in group) == list(range(2048))
    assert all(sum(lengths[i] for i in group) <= 16384 for group in groups)


def test_groups_that_were_opened_late_have_as_much_work_as_the_others() -> None:
    lengths = [60, 60, 50, 40, 40, 40, 40, 40, 30, 30, 20, 20, 20]
    cost = Cost(1.0, 0.0)
    groups = balance(lengths, 100, cost)
    works = [sum(cost.of(lengths[i]) for i in group) for group in groups]
    assert len(groups) == 6  # where 5 would do by their sum, and do not
    assert max(works) / min(works) < 1.25
