from __future__ import annotations

from collections.abc import Callable

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]


def test_a_fine_tuning_launch_hears_once_what_is_not_checked(problems_of: ProblemsOf) -> None:
    (found,) = problems_of("data.train_batch_size=100", bare=True, entry="sft")
    assert (found.code, found.severity, found.unchecked) == ("VRL280", "note", True)
    assert found.message.startswith(f"{NOT_CHECKED}rules about batch, parallel sizes and memory of SFT")


def test_rl_hears_nothing_of_it(problems_of: ProblemsOf) -> None:
    assert not [found for found in problems_of() if "VRL280" in (found.code, found.message)]
