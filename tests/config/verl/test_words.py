"""Words of a launch: sweeps, overrides without a key, characters of typography, lists that the shell splits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Place, Problem
from verlcli.config.shell import Piece, Word
from verlcli.config.shell import Place as ShellPlace
from verlcli.config.verl.check import check_run
from verlcli.config.verl.read_launch import read_launch
from verlcli.config.verl.read_script import read_script_runs
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun
from verlcli.config.verl.words import command_line_settings, read_word, sweep_values
from verlcli.errors import ConfigError

from .conftest import SOUND

RunOf = Callable[..., VerlRun]
MAIN = "python3 -m verl.trainer.main_ppo"


def setting_of(text: str) -> Setting:
    start = ShellPlace(1, 1)
    found = read_word(Word(start, (Piece(text, start),)), "run.sh", multirun=True).setting
    assert found is not None
    return found


def read(*words: str, before: str = "") -> tuple[list[VerlRun], list[Problem]]:
    lines = " \\\n  ".join((MAIN, *SOUND, *words))
    return read_script_runs("run.sh", f"{before}{lines}\n", Context(verl_version="0.9.1"))


def said(*words: str, before: str = "") -> list[Problem]:
    runs, problems = read(*words, before=before)
    found = [*problems, *(problem for run in runs for problem in check_run(run))]
    return [problem for problem in found if problem.severity == "error"]


LINE = len(SOUND) + 2  # of the first word behind `SOUND`


@pytest.mark.parametrize(
    ("text", "first", "values"),
    [
        ("a.b=1,2", 1, (1, 2)),
        ("a.b=choice(x,y)", "x", ("x", "y")),
        ("a.b=range(1,4)", 1, (1, 2, 3)),
        ("a.b=range(start=0,stop=9,step=4)", 0, (0, 4, 8)),
        ("a.b=interval(0,1)", UNKNOWN, (UNKNOWN,)),
        ("a.b=range(0.5,2)", UNKNOWN, (UNKNOWN,)),
        ("a.b=range(0,100000)", UNKNOWN, (UNKNOWN,)),
        ("a.b=[1,2]", [1, 2], ()),
        ("a.b=int(1.0)", 1, ()),
        ("a.b='1,2'", "1,2", ()),
        ("a.b=1", 1, ()),
    ],
)
def test_a_sweep_stands_for_its_first_value(text: str, first: object, values: tuple[object, ...]) -> None:
    setting = setting_of(text)
    assert setting.value == first
    assert sweep_values(setting) == values
    assert (setting.reason == "a sweep") == (first is UNKNOWN)


@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=2,x", "VRL254", "'x' is not a whole number"),
        ("actor_rollout_ref.rollout.tensor_model_parallel_size=3,2", "VRL201", "takes 3 GPUs"),
        ("actor_rollout_ref.rollout.gpu_memory_utilization=choice(0.5,1.7)", "VRL256", "1.7 is out of range"),
    ],
)
def test_each_value_of_a_sweep_is_checked(word: str, code: str, message: str) -> None:
    (problem,) = said(f"'{word}'", "-m")
    assert (problem.code, problem.line) == (code, LINE)
    assert message in problem.message
    assert problem.fix is None


@pytest.mark.parametrize("word", ["actor_rollout_ref.actor.optim.lr=1e-6,5e-6", "'trainer.nnodes=range(1,3)'"])
def test_a_sound_sweep_is_silent(word: str) -> None:
    assert not said(word, "-m")


def test_a_sweep_is_no_config(tmp_path: object) -> None:
    file = f"{tmp_path}/run.sh"
    with open(file, "w", encoding="utf-8") as stream:
        stream.write(f"{MAIN} \\\n  trainer.nnodes=1 \\\n  actor_rollout_ref.actor.optim.lr=1e-6,5e-6 -m\n")
    with pytest.raises(ConfigError, match=r"run\.sh:3: starts several runs, with .*lr=1e-6,5e-6") as refusal:
        read_launch(file)
    assert "write one value for it" in str(refusal.value)


def test_an_override_without_a_key() -> None:
    (problem,) = said("$B", "=1", before='B="trainer.total_epochs=2"\n')
    assert (problem.code, problem.line) == ("VRL335", LINE + 2)
    assert problem.message.startswith("'=1' is an override without a key")
    assert problem.suggestion == "write key=value"


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("data.train_files=“a.parquet”", "VRL312"),
        ('"trainer.project_name=‘x’"', "VRL312"),
        ("–trainer.nnodes=2", "VRL313"),
        ("trainer.project_name=a\u00a0trainer.nnodes=2", "VRL319"),
    ],
)
def test_typography_is_reported_once(word: str, code: str) -> None:
    _, problems = read(word)
    assert [(problem.code, problem.line) for problem in problems if problem.code != "VRL301"] == [(code, LINE)]


def test_a_key_with_a_typographic_value_counts_as_set() -> None:
    runs, _ = read("data.train_files=“a.parquet”")
    setting = runs[0].setting("data.train_files")
    assert setting is not None
    assert setting.value is UNKNOWN


def test_a_dash_inside_a_word_is_for_hydra_to_refuse() -> None:
    (problem,) = said("trainer.project_name=a–b")
    assert problem.code == "VRL333"


def test_outside_of_a_script_nobody_else_reports_typography() -> None:
    _, problems = command_line_settings(["trainer.project_name=“x”"])
    assert [problem.code for problem in problems] == ["VRL333"]


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        ("data.train_files=[a.parquet, b.parquet]", "'data.train_files=[a.parquet,b.parquet]'"),
        ("data.train_files=[ a.parquet , b.parquet ]", "'data.train_files=[ a.parquet,b.parquet ]'"),
        ("+actor_rollout_ref.model.override_config={a: 1}", "'+actor_rollout_ref.model.override_config={a: 1}'"),
        ("data.train_files=[$HOME/a, b]", '"data.train_files=[$HOME/a,b]"'),
    ],
)
def test_a_list_that_the_shell_splits_is_said_once(words: str, advice: str) -> None:
    _, problems = read(words)
    (problem,) = [problem for problem in problems if problem.severity == "error"]
    assert (problem.code, problem.line, problem.column) == ("VRL333", LINE, 3)
    assert problem.suggestion == f"put quotes around the whole word: {advice}"


def test_a_split_list_is_read_as_it_was_meant() -> None:
    runs, _ = read("data.train_files=[a.parquet, b.parquet]", "trainer.nnodes=2")
    assert runs[0].get("data.train_files") == ["a.parquet", "b.parquet"]
    assert runs[0].get("trainer.nnodes") == 2


@pytest.mark.parametrize(
    "words",
    [
        "data.train_files=[a.parquet trainer.nnodes=2",  # never closed
        "data.train_files=[a.parquet b.parquet",
        "data.train_files=[a]x] b]",
    ],
)
def test_what_is_no_list_stays_as_the_shell_splits_it(words: str) -> None:
    _, problems = read(words)
    assert "VRL333" in {problem.code for problem in problems}
    assert not any("quotes around the whole word" in (problem.suggestion or "") for problem in problems)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--config_name=ppo_megatron_trainer", "write --config-name=ppo_megatron_trainer"),
        ("--Config-Name=x", "write --config-name=x"),
        ("--trainer.nnodes=2", "write trainer.nnodes=2"),
        ("--nnodes", "remove it, or write key=value"),
    ],
)
def test_an_option_that_hydra_does_not_have(option: str, advice: str) -> None:
    _, problems = read(option)
    found = [problem.suggestion for problem in problems if problem.code == "VRL335"]
    assert found == [advice]


def test_places_follow_the_word() -> None:
    runs, _ = read("trainer.nnodes=2")
    assert runs[0].value_place("trainer.nnodes") == Place("run.sh", LINE, 3 + len("trainer.nnodes="))
