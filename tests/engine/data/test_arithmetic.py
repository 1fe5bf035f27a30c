"""Arithmetic problems: right, disjoint, and the same for every run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.engine.data.arithmetic import OPERATIONS, arithmetic_datasets
from verlcli.errors import ConfigError


@given(
    operations=st.lists(st.sampled_from(list(OPERATIONS)), min_size=1, unique=True),
    max_operand=st.integers(4, 30),
    split_seed=st.integers(0, 5),
)
def test_training_and_held_out_problems_are_distinct_and_right(
    operations: list[str], max_operand: int, split_seed: int
) -> None:
    train, held_out = arithmetic_datasets(
        {
            "operations": operations,
            "max_operand": max_operand,
            "train_size": 15,
            "val_size": 10,
            "split_seed": split_seed,
        }
    )
    prompts = [dataset[index].prompt for dataset in (train, held_out) for index in range(len(dataset))]
    assert (len(train), len(held_out), len(set(prompts))) == (15, 10, 25)
    for dataset in (train, held_out):
        for index in range(len(dataset)):
            row, (a, op, b) = dataset[index], dataset.problem(index)
            assert 0 <= a <= max_operand
            assert 0 <= b <= max_operand
            assert row.prompt == f"{a}{op}{b}="
            assert row.ground_truth == str(eval(f"{a}{op}{b}"))


def test_the_split_is_the_same_in_every_release() -> None:
    train, held_out = arithmetic_datasets({"train_size": 3, "val_size": 3})
    assert [held_out[index].prompt for index in range(3)] == ["63+11=", "68+91=", "6+65="]
    assert [train[index].prompt for index in range(3)] == ["42+45=", "83+80=", "79+66="]


def test_more_training_problems_add_to_fewer_and_never_take_held_out_ones() -> None:
    small, large = (arithmetic_datasets({"train_size": size, "val_size": 200}) for size in (100, 9800))
    assert small[1].numbers == large[1].numbers
    assert small[0].numbers == large[0].numbers[:100]


def test_split_seed_moves_the_split() -> None:
    splits = [arithmetic_datasets({"split_seed": seed})[1].numbers for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]


def test_all_problems_can_be_asked_for() -> None:
    train, held_out = arithmetic_datasets({"max_operand": 9, "train_size": 90, "val_size": 10})
    assert sorted([*train.numbers, *held_out.numbers]) == list(range(100))


def test_chat_and_template_make_one_user_message() -> None:
    train, _ = arithmetic_datasets({"template": "What is {a} {op} {b}?", "chat": True, "data_source": "sums"})
    a, op, b = train.problem(0)
    assert train[0].prompt == ({"role": "user", "content": f"What is {a} {op} {b}?"},)
    assert train[0].data_source == "sums"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_operands": 9}, "max_operands: unknown argument .* did you mean 'max_operand'"),
        ({"operations": ["/"]}, r"operations: is \['/'\], wanted a list of different ones of \+ - \*"),
        ({"operations": ["+", "+"]}, "a list of different ones"),
        ({"operations": []}, "a list of texts"),
        ({"max_operand": 0}, "a whole number from 1"),
        ({"max_operand": True}, "a whole number from 1"),
        ({"max_operand": "9"}, "is '9', wanted a whole number"),
        ({"max_operand": 10**12}, "to 1000000000"),
        ({"max_operand": 9, "train_size": 100, "val_size": 1}, "more than the 100 distinct problems"),
        ({"train_size": 0}, "train_size: is 0"),
        ({"split_seed": -1}, "split_seed: is -1"),
        ({"template": "{a}+{c}="}, "no other {fields}"),
        ({"template": "{a}="}, "a text with {a} and {b}"),
        ({"template": "{a}{b}=", "operations": ["+", "-"]}, "{a} and {b} and {op}"),
        ({"template": "{a:d}+{b}="}, "no other {fields}"),
        ({"template": "{a.__class__}{a}{b}"}, "no other {fields}"),
        ({"template": "{a}+{b"}, "wanted a text with"),
        ({"template": ""}, "wanted text"),
        ({"chat": "yes"}, "true or false"),
    ],
)
def test_a_bad_argument_is_named_with_what_to_write(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        arithmetic_datasets(arguments)
    assert str(caught.value).startswith("data.source_args")
    assert caught.value.fix
