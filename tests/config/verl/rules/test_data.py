from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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
    (problem,) = of("VRL225", problems_of(f"data.train_files=[a.parquet, {file}]", version=version))
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_files", FIRST)
    assert file in problem.message
    assert endings in problem.message


@pytest.mark.parametrize("more", [(), ("data.custom_cls.path=mine.py", "data.val_files=x.arrow")])
def test_formats_that_are_read(problems_of: ProblemsOf, more: tuple[str, ...]) -> None:
    assert of("VRL225", problems_of("data.train_files=[a.parquet, b.jsonl]", *more)) == []


def test_a_file_that_is_not_here(problems_of: ProblemsOf, tmp_path: Path) -> None:
    absent = f"data.val_files=[{tmp_path}/a.parquet, {tmp_path}/b.parquet]"
    (problem,) = of("VRL225", problems_of(absent))
    assert (problem.severity, problem.path, problem.line) == ("warning", "data.val_files", FIRST)
    assert f"{tmp_path}/a.parquet and 1 more" in problem.message
    assert [p.severity for p in of("VRL225", problems_of(absent, data=DATA))] == ["error"]
    for name in ("a", "b"):
        (tmp_path / f"{name}.parquet").touch()
    assert of("VRL225", problems_of(absent)) == []


@pytest.mark.parametrize("file", ["'~/data/a.parquet'", "data/a.parquet", "hdfs://x/a.parquet", "/data/*.parquet"])
def test_files_that_may_be_elsewhere(problems_of: ProblemsOf, file: str) -> None:
    assert of("VRL225", problems_of(f"data.train_files={file}")) == []


def test_columns_that_are_read(problems_of: ProblemsOf) -> None:
    found = of("VRL225", problems_of("data.prompt_key=question", data=replace(DATA, columns=("text",))))
    assert [(p.severity, p.path, p.line) for p in found] == [
        ("error", "data.prompt_key", FIRST),
        ("error", "data.train_files", 1),
        ("error", "data.train_files", 1),
    ]
    assert "no column 'question'" in found[0].message
    assert found[0].suggestion == "columns: text"
    assert of("VRL225", problems_of(data=DATA)) == []


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
