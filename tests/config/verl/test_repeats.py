"""The same key twice: a warning only where both are words of one command."""

from __future__ import annotations

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.verl.keys import check_keys
from verlcli.config.verl.read_script import read_script_runs

MAIN = "python3 -m verl.trainer.main_ppo"


def found(text: str) -> list[Problem]:
    runs, _ = read_script_runs("run.sh", text, Context(verl_version="0.9.1"))
    return [problem for run in runs for _, problem in check_keys(run) if problem.code == "VRL325"]


@pytest.mark.parametrize(
    ("text", "line", "later"),
    [
        (f"{MAIN} trainer.nnodes=1 trainer.nnodes=4\n", 1, 1),
        (f"{MAIN} trainer.nnodes=1 \\\n  trainer.save_freq=5 \\\n  trainer.nnodes=4\n", 1, 3),
        (f'A=(data.seed=1)\n{MAIN} trainer.nnodes=1 \\\n  "${{A[@]}}" \\\n  trainer.nnodes=4\n', 2, 4),
    ],
)
def test_two_words_of_one_command(text: str, line: int, later: int) -> None:
    (problem,) = found(text)
    assert (problem.severity, problem.line, problem.path) == ("warning", line, "trainer.nnodes")
    assert problem.message == f"1 is not used: line {later} sets it to 4, and the last one holds"
    assert [related.place.line for related in problem.related] == [later]


@pytest.mark.parametrize(
    "text",
    [
        f'COMMON="trainer.nnodes=1"\n{MAIN} $COMMON \\\n  trainer.nnodes=4\n',
        f'A=(trainer.nnodes=1)\n{MAIN} "${{A[@]}}" trainer.nnodes=4\n',
        f'launch() {{\n  {MAIN} \\\n    trainer.nnodes=1 "$@"\n}}\nlaunch trainer.nnodes=4\n',
        f'go() {{\n  {MAIN} trainer.nnodes=1 \\\n    data.seed=1 "$@"\n}}\n\ngo trainer.nnodes=4\n',
        f"{MAIN} trainer.nnodes=1 trainer.nnodes=1\n",
        f"{MAIN} trainer.nnodes=1\n{MAIN} trainer.nnodes=4\n",
        f"{MAIN} trainer.nnodes=1 ~trainer.nnodes\n",
    ],
)
def test_what_varies_a_recipe_is_meant(text: str) -> None:
    assert not found(text)


def test_each_of_several_is_reported() -> None:
    problems = found(f"{MAIN} trainer.nnodes=1 trainer.nnodes=2 trainer.nnodes=3\n")
    assert [problem.message.partition(" is")[0] for problem in problems] == ["2", "1"]
    assert all("sets it to 3" in problem.message for problem in problems)
