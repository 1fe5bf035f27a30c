"""Tasks of reasoning-gym as datasets."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from verlcli.engine.data.reasoning import reasoning_gym_datasets
from verlcli.errors import ConfigError, MissingDependencyError

pytest.importorskip("reasoning_gym")


def test_rows_are_distinct_reproducible_and_carry_the_answer() -> None:
    arguments = {"dataset": "basic_arithmetic", "train_size": 30, "val_size": 10, "max_terms": 2}
    train, held_out = reasoning_gym_datasets(arguments)
    questions = [row.prompt[0]["content"] for row in (*train, *held_out)]  # type: ignore[index]
    assert (len(train), len(held_out), len(set(questions))) == (30, 10, 40)
    assert (train, held_out) == reasoning_gym_datasets(arguments)
    assert train[0].data_source == "reasoning_gym/basic_arithmetic"
    assert int(train[0].ground_truth) == eval(questions[0].removeprefix("Calculate ").removesuffix("."))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": "basic_arithmetics"}, "no task 'basic_arithmetics'; did you mean 'basic_arithmetic'"),
        ({}, "data.source_args.dataset: is '', wanted text"),
        ({"dataset": "basic_arithmetic", "colour": 1}, "refuses its arguments: .*colour"),
        ({"dataset": "basic_arithmetic", "min_terms": -1}, "refuses its arguments"),
        (
            {"dataset": "count_bits", "min_n": 1, "max_n": 10, "train_size": 10, "val_size": 1},
            "different questions found",
        ),
    ],
)
def test_a_bad_argument_is_named_with_a_fix(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        reasoning_gym_datasets(arguments)
    assert caught.value.fix


def test_without_the_package_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(MissingDependencyError, match="pip install") as caught:
        reasoning_gym_datasets({"dataset": "basic_arithmetic"})
    assert caught.value.exit_code == 4
