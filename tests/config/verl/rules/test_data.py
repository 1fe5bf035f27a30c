from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from verlcli.config.context import DataFacts
from verlcli.config.problems import Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
DATA = DataFacts(7473, 7473, ("prompt", "data_source", "reward_model"), ("openai/gsm8k",), too_long=0)


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code]


def test_fewer_samples_than_a_batch(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL224", problems_of("data.train_max_samples=500"))
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_max_samples", FIRST)
    assert "leaves 500 prompts, fewer than the 1024 of one batch" in problem.message
    assert problem.suggestion == "lower data.train_batch_size to 500 or less, or raise data.train_max_samples"


def test_fewer_rows_than_a_batch(problems_of: ProblemsOf) -> None:
    small = replace(DATA, rows=500, rows_read=600)
    (problem,) = of("VRL224", problems_of("data.train_batch_size=601", data=small))
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_batch_size", FIRST)
    assert "the data hold 600 prompts" in problem.message
    assert of("VRL224", problems_of("data.train_batch_size=600", data=small)) == []
    filtered = ("data.train_batch_size=600", "data.filter_overlong_prompts=True")
    assert "the data hold 500 prompts" in of("VRL224", problems_of(*filtered, data=small))[0].message


@pytest.mark.parametrize("override", ["data.train_max_samples=1024", "data.train_max_samples=-1"])
def test_enough_samples(problems_of: ProblemsOf, override: str) -> None:
    assert of("VRL224", problems_of(override)) == []
    assert of("VRL224", problems_of(override, data=DATA)) == []


def test_a_batch_of_no_data(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL224", problems_of(data=replace(DATA, rows=0, rows_read=0)))
    assert problem.suggestion == "correct the data"


@pytest.mark.parametrize(
    ("version", "file", "endings"),
    [("0.9.1", "a/train.arrow", ".parquet, .json or .jsonl"), ("0.6.1", "a/train.jsonl", "takes .parquet files")],
)
def test_a_format_that_verl_does_not_read(problems_of: ProblemsOf, version: str, file: str, endings: str) -> None:
    found = of("VRL225", problems_of(f"data.train_files=[a.parquet, {file}]", version=version))
    (problem,) = [each for each in found if each.severity == "error"]
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_files", FIRST)
    assert file in problem.message
    assert endings in problem.message


@pytest.mark.parametrize("more", [(), ("data.custom_cls.path=mine.py", "data.val_files=x.arrow")])
def test_formats_that_are_read(problems_of: ProblemsOf, more: tuple[str, ...]) -> None:
    found = of("VRL225", problems_of("data.train_files=[a.parquet, b.jsonl]", *more))
    assert "error" not in {problem.severity for problem in found}


def test_columns_that_are_read(problems_of: ProblemsOf) -> None:
    found = of("VRL225", problems_of("data.prompt_key=question", data=replace(DATA, columns=("text",))))
    assert [(p.severity, p.path, p.line) for p in found] == [("error", "data.prompt_key", FIRST)]
    assert "no column 'question' and no 'data_source' and no 'reward_model'; they have text" in found[0].message
    (found_one,) = of("VRL225", problems_of("data.prompt_key=question", data=DATA))
    assert found_one.suggestion == "name the right column in data.prompt_key"
    (rewards,) = of("VRL225", problems_of(data=replace(DATA, columns=("prompt", "data_source"))))
    assert (rewards.path, rewards.line) == ("data.train_files", 1)
    assert "no column 'reward_model'" in rewards.message
    assert of("VRL225", problems_of(data=DATA)) == []


def test_rows_that_all_are_bad_are_one_problem(problems_of: ProblemsOf) -> None:
    nothing = replace(DATA, rows=0, rows_read=0, bad_rows=50, columns=("text",))
    assert [problem.code for problem in problems_of(data=nothing) if problem.severity == "error"] == ["VRL225"]


def test_columns_of_a_reward_manager_of_the_users(problems_of: ProblemsOf) -> None:
    own = ("reward.reward_manager.source=importlib", "reward.reward_manager.name=Mine")
    assert of("VRL225", problems_of(*own, data=replace(DATA, columns=("prompt",)))) == []


@pytest.mark.parametrize(
    ("version", "severity", "part"),
    [("0.6.1", "error", "stops the run"), ("0.9.1", "warning", "beginning is cut off")],
)
def test_prompts_that_are_too_long(problems_of: ProblemsOf, version: str, severity: str, part: str) -> None:
    long = replace(DATA, too_long=12, longest_prompt=900)
    (problem,) = of("VRL274", problems_of("data.max_prompt_length=512", data=long, version=version))
    assert (problem.severity, problem.path, problem.line) == (severity, "data.max_prompt_length", FIRST)
    assert "12 prompts are longer than 512 tokens (the longest has 900)" in problem.message
    assert part in problem.message
    assert of("VRL274", problems_of("data.filter_overlong_prompts=True", data=long, version=version)) == []


def test_truncation_that_nobody_reads(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL279", problems_of("data.truncation=error"))
    assert (problem.severity, problem.path, problem.line) == ("note", "data.truncation", FIRST)
    assert problem.suggestion is not None
    assert "filter_overlong_prompts=True" in problem.suggestion
    for more in ("data.truncation=left", "data.filter_overlong_prompts=True"):
        assert of("VRL279", problems_of("data.truncation=error", more)) == []
    assert of("VRL279", problems_of("data.truncation=error", version="0.6.1")) == []
    assert of("VRL279", problems_of()) == []
