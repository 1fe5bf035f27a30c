"""Built-in reward functions on answers as models write them."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.engine.rewards.builtin import BUILTIN_REWARDS, last_number


def reward(name: str) -> Callable[..., float]:
    function = BUILTIN_REWARDS[name]
    assert not isinstance(function, str)
    return function


@pytest.mark.parametrize(
    ("name", "solution", "truth", "score"),
    [
        ("exact_match", " 42\n", "42", 1.0),
        ("exact_match", "42.", "42", 0.0),
        ("exact_match", "", "42", 0.0),
        ("numeric", "so 20 + 22 = 42", "42", 1.0),
        ("numeric", "42.0", "42", 1.0),
        ("numeric", "The total is $1,234.50.", "1234.5", 1.0),
        ("numeric", "-7", "7", 0.0),
        ("numeric", "the answer is -7", "-7", 1.0),
        ("numeric", "−7", "-7", 1.0),
        ("numeric", "5-3", "3", 1.0),
        ("numeric", "x=-3", "-3", 1.0),
        ("numeric", "1e3", "1000", 1.0),
        ("numeric", "#### 18\nI am 99 % sure", "18", 1.0),
        ("numeric", r"so \boxed{18}, as 9 + 9", "18", 1.0),
        ("numeric", r"\boxed{x = 1{,}000}", "1000", 1.0),
        ("numeric", r"\boxed{18\text{ of }}, as 9 + 9", "18", 1.0),
        ("numeric", "no number", "42", 0.0),
        ("numeric", "", "42", 0.0),
        ("numeric", "no number", "none either", 0.0),
        ("gsm8k", "so\n#### 18", "18", 1.0),
        ("gsm8k", "#### 1,800", "1800", 1.0),
        ("gsm8k", "#### -5", "-5", 1.0),
        ("gsm8k", "#### 3\n#### 18", "18", 1.0),
        ("gsm8k", "####18", "18", 0.0),
        ("gsm8k", "#### 18.0", "18", 0.0),
        ("gsm8k", "18", "18", 0.0),
        ("gsm8k", "#### 18" + "." + " x" * 200, "18", 0.0),
        ("format", "so\n#### 18", "other", 1.0),
        ("format", r"so \boxed{18}.", "", 1.0),
        ("format", "<answer>18</answer>\n", "", 1.0),
        ("format", "#### 18\nand more", "", 0.0),
        ("format", "####", "", 0.0),
        ("format", "", "", 0.0),
    ],
)
def test_score(name: str, solution: str, truth: str, score: float) -> None:
    assert reward(name)("any", solution, truth, None) == score


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234,567", 1234567),
        ("1,2,3", 3),
        ("1,234,56", 56),
        ("12,34", 34),
        (".5", "0.5"),
        ("+5", 5),
        ("(-5)", -5),
        ("3.", 3),
        ("2 * 3.50 = 7.00 dollars", 7),
        ("1e400", "1e400"),
        ("7e", 7),
        ("10%", 10),
        ("", None),
        ("- . , e", None),
    ],
)
def test_last_number(text: str, number: int | str | None) -> None:
    assert last_number(text) == (None if number is None else Decimal(number))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9), st.booleans())
def test_a_written_number_is_read_back(number: Decimal, commas: bool) -> None:
    text = f"{number:,}" if commas else str(number)
    assert last_number(f"I computed 17 and then got {text}.") == number


@given(
    st.text(alphabet="0123456789+-.,eE#{}\\boxd $\n", max_size=80),
    st.sampled_from(["exact_match", "numeric", "gsm8k", "format"]),
)
def test_any_text_scores_0_or_1(text: str, name: str) -> None:
    assert reward(name)("any", text, "1", {}) in (0.0, 1.0)


def test_a_long_answer_of_digits_is_scored_fast() -> None:
    start = time.monotonic()
    for text in ("1" * 200_000, "1," * 100_000, "####" * 50_000, "\\boxed{" * 30_000, " \n" * 100_000):
        for name in ("numeric", "gsm8k", "format"):
            reward(name)("any", text, "1", None)
    assert time.monotonic() - start < 5
