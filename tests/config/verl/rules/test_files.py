from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from verlcli.config.problems import Place, Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.run import CommandLine, ScriptFacts, VerlRun

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test
MODEL = "actor_rollout_ref.model.path"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code and not problem.unchecked]


def test_data_that_are_not_here(problems_of: ProblemsOf, tmp_path: Path) -> None:
    absent = f"data.val_files=[{tmp_path}/a.parquet, {tmp_path}/b.parquet]"
    (problem,) = of("VRL225", problems_of(absent))
    assert (problem.severity, problem.path, problem.line) == ("warning", "data.val_files", FIRST)
    assert f"{tmp_path}/a.parquet and 1 more" in problem.message
    for name in ("a", "b"):
        (tmp_path / f"{name}.parquet").touch()
    assert of("VRL225", problems_of(absent)) == []


@pytest.mark.parametrize("file", ["'~/data/a.parquet'", "hdfs://x/a.parquet", "/data/*.parquet", "'$HOME/a.parquet'"])
def test_files_that_cannot_be_looked_up(problems_of: ProblemsOf, file: str) -> None:
    assert of("VRL225", problems_of(f"data.train_files={file}")) == []


@pytest.mark.parametrize("file", ["data/a.parquet", "./data/a.parquet"])
def test_a_relative_file_is_only_a_note(problems_of: ProblemsOf, tmp_path: Path, file: str) -> None:
    (problem,) = of("VRL225", problems_of(f"data.train_files={file}"))
    assert (problem.severity, problem.path, problem.line) == ("note", "data.train_files", FIRST)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.parquet").touch()
    assert of("VRL225", problems_of(f"data.train_files={file}")) == []


def test_a_relative_file_of_a_script_that_changes_its_folder(run_of: Callable[..., VerlRun]) -> None:
    run = run_of("data.train_files=data/a.parquet")
    assert len(of("VRL225", list(check_rules(run)))) == 1
    moved = ScriptFacts(commands=(CommandLine(("cd", "/work"), Place("run.sh", 1, 1)),))
    assert of("VRL225", list(check_rules(replace(run, script=moved)))) == []


def test_a_relative_file_beside_the_script(run_of: Callable[..., VerlRun], tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.parquet").touch()
    run = run_of("data.train_files=a.parquet")
    beside = replace(run, place=Place(str(tmp_path / "jobs" / "run.sh"), 1, 1))
    assert [len(of("VRL225", list(check_rules(each)))) for each in (run, beside)] == [1, 0]


@pytest.mark.parametrize(("path", "severity"), [("/models/qwen", "warning"), ("./models/qwen", "note")])
@pytest.mark.parametrize("key", [MODEL, "critic.model.path", "reward.reward_model.model_path"])
def test_models_that_are_not_here(problems_of: ProblemsOf, key: str, path: str, severity: str) -> None:
    (problem,) = of("VRL244", problems_of(f"{key}={path}"))
    assert (problem.severity, problem.path, problem.line) == (severity, key, FIRST)
    assert problem.message == f"no such model here: {path}"


@pytest.mark.parametrize("path", ["Qwen/Qwen2.5-7B", "qwen", "a/b/c", "'~/models/qwen'", "'${oc.env:MODELS}/qwen'"])
def test_models_that_may_be_on_the_hub_or_elsewhere(problems_of: ProblemsOf, path: str) -> None:
    assert of("VRL244", problems_of(f"{MODEL}={path}")) == []


def test_a_model_that_is_here(problems_of: ProblemsOf, tmp_path: Path) -> None:
    assert of("VRL244", problems_of(f"{MODEL}={tmp_path}")) == []
