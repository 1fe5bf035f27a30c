"""Batches as a pure function of the step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.engine.data import PromptSampler
from verlcli.errors import ConfigError

SIZES = st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size)))


@given(SIZES, st.integers(0, 2**40), st.integers(0, 5), st.booleans())
def test_an_epoch_draws_no_row_twice_and_drops_less_than_a_batch(
    sizes: tuple[int, int], seed: int, epoch: int, shuffle: bool
) -> None:
    size, batch_size = sizes
    sampler = PromptSampler(size, batch_size, seed, shuffle)
    first = epoch * sampler.steps_per_epoch
    drawn = [index for step in range(first, first + sampler.steps_per_epoch) for index in sampler.batch(step)]
    assert len(drawn) == len(set(drawn)) > size - batch_size
    assert set(drawn) <= set(range(size))


@given(SIZES, st.integers(0, 100), st.lists(st.integers(0, 60), max_size=10))
def test_a_step_is_the_same_whatever_was_drawn_before(sizes: tuple[int, int], seed: int, steps: list[int]) -> None:
    sampler = PromptSampler(*sizes, seed)
    assert [sampler.batch(step) for step in steps] == [PromptSampler(*sizes, seed).batch(step) for step in steps]


def test_epochs_and_seeds_differ_and_share_no_permutation() -> None:
    orders = [PromptSampler(50, 50, seed).batch(epoch) for seed in range(3) for epoch in range(3)]
    assert len({tuple(order) for order in orders}) == 9


def test_without_shuffle_rows_come_in_order() -> None:
    sampler = PromptSampler(7, 3, 0, shuffle=False)
    assert [sampler.batch(step) for step in range(3)] == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]


def test_the_order_is_the_same_in_every_release() -> None:
    assert PromptSampler(10, 5, 0).batch(0) == [4, 6, 2, 7, 3]


@pytest.mark.parametrize(("size", "batch_size"), [(10, 11), (10, 0), (0, 4)])
def test_a_batch_that_cannot_be_drawn_names_sizes_and_key(size: int, batch_size: int) -> None:
    with pytest.raises(ConfigError) as caught:
        PromptSampler(size, batch_size, 0)
    assert str(size) in str(caught.value) or "empty" in str(caught.value)
    assert str(caught.value).startswith("data")
    assert caught.value.fix
