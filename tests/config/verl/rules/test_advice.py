"""Advice with numbers, taken by the letter on random launches: it solves its problem and brings no other error."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import pytest

from verlcli.config.problems import Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.rules._advice import around, good_values, with_values
from verlcli.config.verl.run import VerlRun

RunOf = Callable[..., VerlRun]
A = "actor_rollout_ref"
MINI, TP, N = f"{A}.actor.ppo_mini_batch_size", f"{A}.rollout.tensor_model_parallel_size", f"{A}.rollout.n"
MODELS = ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen3-8B", "me/mine")
SP = f"{A}.actor.fsdp_config.ulysses_sequence_parallel_size"
CHOICES: dict[str, tuple[object, ...]] = {
    "trainer.n_gpus_per_node": (1, 2, 4, 6, 7, 8),
    "trainer.nnodes": (1, 1, 1, 2, 3),
    "data.train_batch_size": (32, 60, 100, 128, 256, 500, 1024),
    MINI: (16, 30, 48, 64, 100, 256),
    N: (1, 4, 5, 8),
    TP: (1, 2, 3, 4, 8),
    f"{A}.actor.ppo_micro_batch_size_per_gpu": (1, 2, 4, 8),
    f"{A}.rollout.log_prob_micro_batch_size_per_gpu": (1, 4, 16),
    SP: (1, 1, 2, 3, 8),
    f"{A}.actor.use_dynamic_bsz": (False, False, True),
    f"{A}.actor.ppo_max_token_len_per_gpu": (1024, 16384),
    f"{A}.rollout.max_model_len": (1024, 4096, 50000),
    "data.max_response_length": (512, 3000, 40000),
    f"{A}.model.path": MODELS,
    "data.train_max_samples": (-1, -1, 300),
}
_VALUE = re.compile(r"([a-z_]+\.[\w.]+)(?:=| to )(\d+)(?![\d.])")
_IT = re.compile(r"^set it to (\d+)")


def launches(run_of: RunOf, version: str, count: int) -> Iterator[VerlRun]:
    dice = random.Random(f"advice {version}")
    for _ in range(count):
        keys = dice.sample(list(CHOICES), 7)
        yield run_of(*(f"{key}={dice.choice(CHOICES[key])}" for key in keys), version=version)


def numbers_in(problem: Problem) -> dict[str, int]:
    """What the first sentence part of a suggestion sets: up to the first `, or `."""
    first = (problem.suggestion or "").split(", or ")[0]
    it = _IT.match(first)
    return {problem.path: int(it[1])} if it else {key: int(value) for key, value in _VALUE.findall(first)}


def errors(problems: list[Problem]) -> set[str]:
    return {problem.code for problem in problems if problem.severity == "error"}


@pytest.mark.parametrize(("version", "count"), [("0.9.1", 160), ("0.8.0", 40), ("0.6.1", 40)])
def test_advice_that_is_taken_brings_no_new_error(run_of: RunOf, version: str, count: int) -> None:
    taken, wrong = 0, []
    for run in launches(run_of, version, count):
        before = list(check_rules(run))
        for problem in before:
            values = numbers_in(problem)
            if problem.severity == "note" or not values:
                continue
            taken += 1
            after = list(check_rules(with_values(run, values)))
            # Sequences can only be counted once the GPUs divide.
            hidden = errors(list(check_rules(with_values(run, {SP: 1})))) if problem.code == "VRL204" else set()
            same = [each for each in after if (each.code, each.message) == (problem.code, problem.message)]
            if same or errors(after) - errors(before) - hidden:
                wrong.append((problem.sentence, values, [each.sentence for each in after if each.severity == "error"]))
    assert wrong == [], "\n".join(map(str, wrong))
    assert taken >= count


def test_values_are_tried_on_the_launch(run_of: RunOf) -> None:
    run = run_of(f"{TP}=3")
    assert good_values(run, "VRL201", TP, [8, 4, 3, 2]) == [4, 2]  # 28 heads
    assert good_values(run, "VRL201", TP, [8, 4, 3, 2], 1) == [4]
    assert good_values(run, "VRL201", TP, [5, 3]) == []
    assert good_values(run_of(f"{TP}=3", f"{A}.model.path=me/mine"), "VRL201", TP, [8, 4]) == [8, 4]


def test_values_without_a_warning_come_before_those_with_one(run_of: RunOf) -> None:
    run = run_of("data.train_batch_size=100", f"{MINI}=32", f"{N}=1")
    batches = [104, 96]  # 104 are filled up to 128
    assert good_values(run, "VRL206", "data.train_batch_size", batches) == [96]
    assert good_values(run, "VRL206", "data.train_batch_size", batches[:1]) == [104]


def test_a_value_may_need_another_beside_it(run_of: RunOf) -> None:
    run = run_of(f"{MINI}=12", f"{N}=1")
    assert good_values(run, "VRL206", MINI, [16]) == []  # 2 sequences a rank, in micro-batches of 4
    micro = f"{A}.actor.ppo_micro_batch_size_per_gpu"
    assert good_values(run, "VRL206", MINI, [16], beside={micro: 2}) == [16]


def test_trying_advice_leaves_the_launch_as_it_is(run_of: RunOf) -> None:
    run = run_of(f"{TP}=3")
    before = list(check_rules(run))
    assert list(check_rules(run)) == before
    changed = with_values(run, {TP: 2, "data.train_max_samples": 5})
    assert (changed.get(TP), run.get(TP), changed.get("data.train_max_samples")) == (2, 3, 5)
    assert (changed.name(TP), changed.value_place(TP)) == (run.name(TP), run.value_place(TP))


@pytest.mark.parametrize(
    ("number", "step", "found"),
    [(12, 8, [8, 16, 24]), (7, 1, [7, 6, 8, 5, 9, 4, 10, 3, 11, 12, 13, 14]), (1, 8, [8]), (256, 7, [259, 252, 266])],
)
def test_multiples_around_a_number(number: int, step: int, found: list[int]) -> None:
    assert around(number, step)[: len(found)] == found


def test_absurd_numbers_take_no_time() -> None:
    assert len(around(10**12, 3)) < 1000
