"""Built-in reward functions, one small function each, with verl's signature."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from verlcli.engine.rewards._base import RewardFunction

_NUMBER = re.compile(
    r"""(?:(?<![\w.)\]}])[-+])?                    # a sign, unless a term stands before it: 5-3 ends in 3
        (?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)
        (?:[eE][-+]?[0-9]{1,3}(?![0-9]))?""",
    re.VERBOSE,
)
_MARKED = re.compile(r"####[ \t]*([^\n]+)|\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_GSM8K = re.compile(r"#### (-?[0-9.,]+)")
_ANSWER_MARK = re.compile(r"####\s*\S|\\boxed\s*\{.*\}\W*$|</answer>$")
_WINDOW = 300  # characters at the end that are looked at, as in verl's gsm8k reward


def exact_match(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None
) -> float:
    """1.0 when the answer equals the ground truth up to white space around it, else 0.0."""
    return float(solution_str.strip() == ground_truth.strip())


def numeric(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None
) -> float:
    r"""1.0 when the answer's last number equals the ground truth's as a number, else 0.0.

    After `####` or in `\boxed{}`, if there is one, else anywhere; reads `1,234`, `+5`, `-.5`, `2.50`, `1e3`.
    """
    answer, truth = last_number(solution_str), last_number(ground_truth)
    return float(answer is not None and answer == truth)


def gsm8k(data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None) -> float:
    """1.0 when the last `#### N` of the answer's last 300 characters is the ground truth's text, else 0.0.

    As verl's own strict gsm8k reward: commas are dropped, nothing else is made equal.
    """
    found = _GSM8K.findall(solution_str[-_WINDOW:])
    return float(bool(found) and found[-1].replace(",", "") == ground_truth)


def answer_format(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any] | None = None
) -> float:
    r"""1.0 when the last line marks an answer (`#### N`, `\boxed{}` or `</answer>`), right or wrong, else 0.0."""
    last_line = solution_str.rstrip().rpartition("\n")[2]
    return float(bool(_ANSWER_MARK.search(last_line[-_WINDOW:])))


def last_number(text: str) -> Decimal | None:
    r"""The last number of a text as a decimal, after `####` or in `\boxed{}` where there is one; None without any."""
    text = text.replace("−", "-").replace("{,}", ",")  # typeset minus and LaTeX's thousands
    for first, second in reversed(_MARKED.findall(text)):
        if numbers := _numbers(first or second):
            return numbers[-1]
    return numbers[-1] if (numbers := _numbers(text)) else None


def _numbers(text: str) -> list[Decimal]:
    return [Decimal(found.replace(",", "")) for found in _NUMBER.findall(text)]


# A function, or where to find one that needs a process of its own: `file.py:name`.
BUILTIN_REWARDS: dict[str, RewardFunction | str] = {
    "exact_match": exact_match,
    "numeric": numeric,
    "gsm8k": gsm8k,
    "format": answer_format,
    "math_verify": f"{Path(__file__).with_name('math_equal.py')}:math_verify",
}
