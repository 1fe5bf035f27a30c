"""The batch size that follows from the mini batch when nobody sets it."""

from __future__ import annotations

from typing import Any

import pytest

from verlcli.config import as_loaded, load_config

BASE = {"model": {"path": "a/b"}, "data": {"source": "arithmetic"}}


def load(*overrides: str) -> Any:
    return load_config([BASE], overrides, env={})


@pytest.mark.parametrize(
    ("overrides", "size"),
    [
        ([], 64),
        (["training.ppo_mini_batch_size=16"], 64),
        (["training.ppo_mini_batch_size=512"], 512),
        (["training.ppo_mini_batch_size=512", "data.train_batch_size=1024"], 1024),
        (["training.ppo_mini_batch_size=512", "data.train_batch_size=null"], 512),
        (["data.train_batch_size=8"], 8),
    ],
)
def test_batch_is_the_larger_of_64_and_the_mini_batch_unless_set(overrides: list[str], size: int) -> None:
    loaded = load(*overrides)
    assert loaded.problems == ()
    assert loaded.values["data"]["train_batch_size"] == loaded.config.data.train_batch_size == size
    assert loaded.origins["data.train_batch_size"][-1].value == size


def test_history_says_where_the_number_comes_from() -> None:
    (origin,) = load("training.ppo_mini_batch_size=512").origins["data.train_batch_size"]
    assert (origin.kind, origin.label) == ("default", "default: the larger of 64 and training.ppo_mini_batch_size")
    assert "data.train_batch_size" not in load().set_by_user
    assert "data.train_batch_size" not in load().origins_json()


def test_a_written_config_has_the_number() -> None:
    loaded = load("training.ppo_mini_batch_size=512")
    assert "train_batch_size: 512" in loaded.to_yaml()


def test_a_later_mini_batch_still_moves_it() -> None:
    assert as_loaded(load(), ["training.ppo_mini_batch_size=512"]).config.data.train_batch_size == 512
    fixed = as_loaded(load("data.train_batch_size=64"), ["training.ppo_mini_batch_size=512"])
    assert [problem.code for problem in fixed.problems] == ["VRL101"]


@pytest.mark.parametrize("mini", ["x", ".nan", ".inf", "-5", "[1]", "true"])
def test_a_mini_batch_that_is_none_is_the_only_problem(mini: str) -> None:
    assert [problem.path for problem in load(f"training.ppo_mini_batch_size={mini}").problems][:1] == [
        "training.ppo_mini_batch_size"
    ]


def test_sections_that_are_none_are_reported_not_tripped_over() -> None:
    assert [problem.code for problem in load("data=3", "training=4").problems][:1] == ["VRL002"]
