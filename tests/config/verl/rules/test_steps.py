from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR = "actor_rollout_ref.actor"
BATCH, MINI, DYNAMIC = "data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size", f"{ACTOR}.use_dynamic_bsz=True"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.1", "main"])
def test_a_step_smaller_than_one_update(problems_of: ProblemsOf, version: str) -> None:
    (found,) = of("VRL207", problems_of(f"{BATCH}=64", version=version))
    assert (found.severity, found.path, found.line) == ("error", BATCH, FIRST)
    assert found.message == "the step has 64 prompts, less than one mini-batch of 256"
    assert found.suggestion == f"set {MINI} to 32 or 64"


@pytest.mark.parametrize(
    ("version", "severity", "text"),
    [
        ("0.7.1", "warning", "makes one update of them"),
        ("0.8.0", "error", "is no whole number of mini-batches of 256"),
        ("0.9.1", "warning", "filled up with 1536 dummies to 2048 (75%)"),
    ],
)
def test_what_dynamic_batches_make_of_it(problems_of: ProblemsOf, version: str, severity: str, text: str) -> None:
    (found,) = of("VRL207", problems_of(f"{BATCH}=64", DYNAMIC, version=version))
    assert (found.severity, found.line) == (severity, FIRST)
    assert text in found.message


def test_much_filling_up(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL207", problems_of(f"{BATCH}=96", f"{MINI}=64", DYNAMIC))
    assert (found.severity, found.path, found.line) == ("warning", MINI, FIRST + 1)
    assert "a step of 768 sequences is filled up with 256 dummies to 1024 (25%)" in found.message
    assert found.suggestion == f"set {MINI} to 48 or 96"


@pytest.mark.parametrize(
    "overrides",
    [
        (f"{BATCH}=128", f"{MINI}=64", DYNAMIC),
        (f"{BATCH}=1000", f"{MINI}=32", DYNAMIC),  # 3 % of padding
        (f"{BATCH}=64", f"{MINI}=64"),
    ],
)
def test_steps_of_whole_mini_batches(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL207", problems_of(*overrides)) == []


def test_an_empty_step(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL207", problems_of(f"{BATCH}=0"))
    assert found.suggestion == f"raise {BATCH}"
    assert of("VRL207", problems_of(f"{BATCH}=0", entry="fully_async")) == []


def test_a_part_of_a_mini_batch(problems_of: ProblemsOf) -> None:
    overrides = (f"{BATCH}=96", f"{MINI}=64")
    (found,) = of("VRL207", problems_of(*overrides, version="0.8.0"))
    assert (found.severity, found.line) == ("error", FIRST + 1)
    assert "a step of 96 prompts is no whole number of mini-batches of 64" in found.message
    assert of("VRL207", problems_of(*overrides, version="0.6.1")) == []


def test_parts_of_a_step_in_separate_mode(problems_of: ProblemsOf) -> None:
    overrides = ("trainer.v1.trainer_mode=separate_async", f"{BATCH}=256", f"{MINI}=64", DYNAMIC)
    assert of("VRL207", problems_of(*overrides)) == []
