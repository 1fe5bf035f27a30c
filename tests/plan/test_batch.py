"""Batch arithmetic: the numbers, the sentences, and what does not divide."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verlcli.config import Config, Loaded, load_config
from verlcli.config.build import build_config
from verlcli.errors import DoesNotFitError
from verlcli.plan.batch import plan_batch

Load = Callable[..., Loaded]


def sizes(prompts: int, n: int, mini: int | None = None, micro: int | None = None, **more: object) -> list[str]:
    values = {
        "data.train_batch_size": prompts,
        "rollout.n": n,
        "training.ppo_mini_batch_size": mini,
        "training.ppo_micro_batch_size_per_gpu": micro,
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return [f"{key}={'null' if value is None else value}" for key, value in values.items()]


BASE = load_config([], ["model.path=tiny", "data.source=arithmetic"], env={}).config


def with_sizes(prompts: int, n: int, mini: int | None, micro: int | None, backend: str) -> Config:
    return replace(
        BASE,
        backend=backend,
        data=replace(BASE.data, train_batch_size=prompts),
        rollout=replace(BASE.rollout, n=n),
        training=replace(BASE.training, ppo_mini_batch_size=mini, ppo_micro_batch_size_per_gpu=micro),
    )


def test_the_equation_goes_from_prompts_to_updates(load: Load) -> None:
    batch = plan_batch(load(*sizes(64, 8, 16, 32, training__ppo_epochs=2)).config, 1)
    assert batch.equation == (
        "64 prompts x 8 samples = 512 sequences",
        "512 sequences / 1 rank = 512 a rank",
        "64 prompts / 16 a mini batch = 4 mini batches of 128 sequences a rank",
        "128 sequences / 32 a micro batch = 4 micro batches an update",
        "4 mini batches x 2 epochs = 8 updates a step",
    )
    assert (batch.sequences, batch.mini_batches, batch.accumulation_steps, batch.updates) == (512, 4, 4, 8)


def test_over_ranks_micro_batches_count_one_rank_and_mini_batches_all(load: Load) -> None:
    batch = plan_batch(load(*sizes(512, 8, 256, 64)).config, 8)
    assert batch.sequences_per_rank == 512
    assert batch.mini_batch_sequences_per_rank == 256
    assert (batch.accumulation_steps, batch.updates) == (4, 2)


def test_without_a_mini_batch_the_whole_batch_is_one_update(load: Load) -> None:
    batch = plan_batch(load(*sizes(32, 4)).config, 1)
    assert (batch.mini_batch_prompts, batch.updates) == (32, 1)


@pytest.mark.parametrize(
    ("prompts", "n", "mini", "ranks", "message", "fix"),
    [
        (80, 8, 80, 6, "640 sequences over 6 ranks leaves 4", "data.train_batch_size to 78 or 81"),
        (96, 8, 32, 6, "256 sequences over 6 ranks leaves 4", "training.ppo_mini_batch_size to 24 or 48"),
        (64, 8, 24, 1, "64 prompts over mini batches of 24 leaves 16", "training.ppo_mini_batch_size to 16 or 32"),
        (64, 8, 24, 1, "leaves 16", "data.train_batch_size to 48 or 72"),
        (64, 8, 256, 1, "a mini batch of 256 prompts is larger than the batch of 64", "ppo_mini_batch_size to 64"),
        (10, 1, 5, 4, "5 sequences over 4 ranks leaves 1", "data.train_batch_size to 8 or 12 and training.ppo_mini"),
        (10, 1, None, 4, "10 sequences over 4 ranks leaves 2", "data.train_batch_size to 8 or 12"),
        (2, 1, None, 4, "2 sequences over 4 ranks leaves 2", "data.train_batch_size to 4"),
    ],
)
def test_what_does_not_divide_shows_the_sum_and_the_nearest_values(
    prompts: int, n: int, mini: int | None, ranks: int, message: str, fix: str
) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        plan_batch(with_sizes(prompts, n, mini, None, "local"), ranks)
    assert message in caught.value.message
    assert fix in str(caught.value.fix)
    assert caught.value.exit_code == 3


def test_a_last_micro_batch_may_be_smaller_on_local_and_the_equation_says_so(load: Load) -> None:
    batch = plan_batch(load(*sizes(10, 10, micro=32)).config, 1)
    assert batch.accumulation_steps == 4
    assert batch.equation[3] == "100 sequences / 32 a micro batch = 4 micro batches an update (the last one has 4)"


def test_an_uneven_micro_batch_is_refused_by_verl(load: Load) -> None:
    config = build_config(load(*sizes(10, 10, micro=32), "backend=verl").values)
    with pytest.raises(DoesNotFitError, match="micro batches of 32 leaves 4") as caught:
        plan_batch(config, 1)
    assert "training.ppo_micro_batch_size_per_gpu to 25 or 50" in str(caught.value.fix)


def test_a_micro_batch_above_the_mini_batch_takes_all_of_it(load: Load) -> None:
    batch = plan_batch(load(*sizes(4, 4, micro=64)).config, 1)
    assert batch.micro_batch_sequences == 16
    assert batch.equation[3].endswith("1 micro batch an update (64 asked for, the mini batch has no more)")


@pytest.mark.parametrize(
    ("budget", "micro", "accumulation"),
    [(16384, 16, 8), (100_000, 64, 2), (1_000_000, 128, 1), (100, 1, 128), (3 * 1024, 3, 43)],
)
def test_the_default_micro_batch_fits_the_token_budget_in_equal_parts(
    load: Load, budget: int, micro: int, accumulation: int
) -> None:
    # 128 sequences of at most 512 + 512 tokens.
    batch = plan_batch(load(*sizes(16, 8, training__max_token_len_per_gpu=budget)).config, 1)
    assert (batch.micro_batch_sequences, batch.accumulation_steps) == (micro, accumulation)
    assert f"chosen: {budget} tokens a forward pass / 1024 a sequence" in batch.equation[3]


def test_on_verl_the_default_micro_batch_divides(load: Load) -> None:
    batch = plan_batch(
        load(
            *sizes(10, 10, training__max_token_len_per_gpu=32 * 1024), "backend=verl", "distributed.gpus_per_node=1"
        ).config,
        1,
    )
    assert batch.micro_batch_sequences == 25


@pytest.mark.parametrize("backend", ["verl", "local"])
def test_dynamic_batches_ignore_the_fixed_size(load: Load, backend: str) -> None:
    overrides = sizes(512, 8, 512, 60, training__use_dynamic_bsz=True)
    batch = plan_batch(load(*overrides, f"backend={backend}").config, 8)
    assert batch.micro_batch_sequences == 16
    assert "dynamic, about" in batch.equation[3]


@given(
    prompts=st.integers(1, 512),
    n=st.integers(1, 16),
    mini=st.none() | st.integers(1, 512),
    micro=st.none() | st.integers(1, 512),
    ranks=st.integers(1, 16),
    backend=st.sampled_from(["local", "verl"]),
)
@settings(max_examples=300, deadline=None)
def test_every_sequence_is_trained_once_an_epoch_or_the_plan_is_refused(
    prompts: int, n: int, mini: int | None, micro: int | None, ranks: int, backend: str
) -> None:
    config = with_sizes(prompts, n, mini, micro, backend)
    if refusal(config, ranks) is not None:
        return
    batch = plan_batch(config, ranks)
    covered = batch.accumulation_steps * batch.micro_batch_sequences
    assert batch.mini_batches * batch.mini_batch_sequences_per_rank * ranks == prompts * n
    assert covered - batch.micro_batch_sequences < batch.mini_batch_sequences_per_rank <= covered
    if backend == "verl":
        assert covered == batch.mini_batch_sequences_per_rank


@given(
    prompts=st.integers(1, 200),
    n=st.integers(1, 8),
    mini=st.none() | st.integers(1, 200),
    ranks=st.integers(1, 12),
)
@settings(max_examples=300, deadline=None)
def test_the_values_that_a_refusal_suggests_fit(prompts: int, n: int, mini: int | None, ranks: int) -> None:
    error = refusal(with_sizes(prompts, n, mini, None, "local"), ranks)
    if error is None:
        return
    assert error.fix is not None
    for value in suggested("ppo_mini_batch_size", error.fix):
        assert refusal(with_sizes(prompts, n, value, None, "local"), ranks) is None
    for value in suggested("train_batch_size", error.fix):
        step = re.search(r"to a multiple of (\d+)", error.fix)
        assert refusal(with_sizes(value, n, int(step[1]) if step else mini, None, "local"), ranks) is None


def refusal(config: Config, ranks: int) -> DoesNotFitError | None:
    try:
        plan_batch(config, ranks)
    except DoesNotFitError as error:
        return error
    return None


def suggested(key: str, fix: str) -> list[int]:
    found = re.search(rf"{key} to (\d+)(?: or (\d+))?", fix)
    return [int(value) for value in found.groups() if value] if found else []
