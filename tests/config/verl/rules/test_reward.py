from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from verlcli.config.context import DataFacts
from verlcli.config.problems import Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
PATH, NAME = "reward.custom_reward_function.path", "reward.custom_reward_function.name"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code]


def data(*sources: str) -> DataFacts:
    return DataFacts(7473, 7473, ("prompt", "data_source", "reward_model"), sources)


def test_a_source_that_verl_does_not_score(problems_of: ProblemsOf) -> None:
    found = problems_of("data.train_files=a.parquet", data=data("openai/gsm8k", "my/set", "x/y"))
    (problem,) = of("VRL226", found)
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_files", FIRST)
    assert "no reward for data_source 'my/set' and 1 more" in problem.message
    assert problem.suggestion == f"set {PATH} to a file with a function compute_score"


@pytest.mark.parametrize(
    ("overrides", "sources", "version"),
    [
        ((), ("openai/gsm8k", "aime2024"), "0.9.1"),
        ((), ("math",), "0.6.1"),
        ((f"{PATH}=mine.py",), ("my/set",), "0.9.1"),
        (("custom_reward_function.path=mine.py",), ("my/set",), "0.6.1"),
        (("reward.reward_manager.source=importlib",), ("my/set",), "0.9.1"),
        (("reward.reward_model.enable=True",), ("my/set",), "0.9.1"),
        (("reward.reward_manager.name=mine",), ("my/set",), "0.9.1"),
    ],
)
def test_sources_that_are_scored(
    problems_of: ProblemsOf, overrides: tuple[str, ...], sources: tuple[str, ...], version: str
) -> None:
    assert of("VRL226", problems_of(*overrides, version=version, data=data(*sources))) == []


def test_a_source_that_an_old_version_does_not_score(problems_of: ProblemsOf) -> None:
    assert len(of("VRL226", problems_of(version="0.5.0", data=data("math")))) == 1
    assert of("VRL226", problems_of()) == []


def test_a_reward_file_that_is_not_here(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL247", problems_of(f"{PATH}=/nope.py"))
    assert (problem.severity, problem.path, problem.line) == ("warning", PATH, FIRST)
    assert "/nope.py" in problem.message
    assert of("VRL247", problems_of(f"{PATH}=rewards/nope.py")) == []
    assert of("VRL247", problems_of(f"{PATH}=pkg://my.module")) == []


def test_the_old_key_of_the_reward_file(problems_of: ProblemsOf) -> None:
    old = "custom_reward_function.path=/nope.py"
    assert [problem.path for problem in of("VRL247", problems_of(old, version="0.7.1"))] == [old[:-9]]
    assert of("VRL247", problems_of(old)) == []


DEFINES = """
import os
from x import y as imported
try:
    LIMIT = 3
    def guarded(): ...
except ImportError:
    pass
class Scorer: ...
async def later(): ...
def compute_score(data_source, solution_str, ground_truth, extra_info=None): ...
"""


@pytest.mark.parametrize("name", ["compute_score", "later", "imported", "guarded", "Scorer", "LIMIT"])
def test_functions_that_the_file_defines(problems_of: ProblemsOf, tmp_path: Path, name: str) -> None:
    file = tmp_path / "reward.py"
    file.write_text(DEFINES)
    assert of("VRL271", problems_of(f"{PATH}={file}", f"{NAME}={name}")) == []


def test_a_function_that_the_file_does_not_define(problems_of: ProblemsOf, tmp_path: Path) -> None:
    file = tmp_path / "reward.py"
    file.write_text(DEFINES)
    (problem,) = of("VRL271", problems_of(f"{PATH}={file}", f"{NAME}=compute_scores"))
    assert (problem.severity, problem.path, problem.line) == ("error", NAME, FIRST + 1)
    assert problem.suggestion == "did you mean 'compute_score'?"
    assert [other.path for other in problem.related] == [PATH]


def test_the_default_name_counts(problems_of: ProblemsOf, tmp_path: Path) -> None:
    file = tmp_path / "reward.py"
    file.write_text("def reward(): ...")
    (problem,) = of("VRL271", problems_of(f"{PATH}={file}"))
    assert (problem.path, problem.line) == (PATH, FIRST)
    assert "defines no 'compute_score'" in problem.message
    assert problem.suggestion == f"set {NAME} to a function of that file"


@pytest.mark.parametrize("text", ["from rewards import *", "def __getattr__(name): ..."])
def test_names_that_cannot_be_told(problems_of: ProblemsOf, tmp_path: Path, text: str) -> None:
    file = tmp_path / "reward.py"
    file.write_text(text)
    assert of("VRL271", problems_of(f"{PATH}={file}")) == []


@pytest.mark.parametrize("text", [b"def compute_score(:", b"x = '\0'", b"\xff\xfe"])
def test_a_reward_file_that_is_no_python(problems_of: ProblemsOf, tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "reward.py"
    file.write_bytes(text)
    (problem,) = of("VRL271", problems_of(f"{PATH}={file}"))
    assert (problem.severity, problem.path) == ("error", PATH)
    assert "is no Python that can be loaded" in problem.message
