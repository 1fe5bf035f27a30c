"""How a launch is started: the module's name, by which program, and where Hydra looks for its config."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.problems import Problem
from verlcli.config.shell import read_script
from verlcli.config.verl.command import hydra_line, program_of
from verlcli.config.verl.entry import Chosen, Command, choose_entry
from verlcli.config.verl.launch_checks import launch_problems

KEYS = "trainer.nnodes=1 actor_rollout_ref.rollout.n=8"


def chosen_of(module: str, version: str = "0.9.1", *, pinned: bool = False, config: str | None = None) -> Chosen:
    found = choose_entry(Command(module, version, pinned, config, keys=("actor_rollout_ref.rollout.n",)))
    assert found is not None
    return found


def said(command: str, path: str = "run.sh") -> list[Problem]:
    (launch,) = read_script(f"{command} {KEYS}\n", path).launches
    program = program_of(launch)
    line = hydra_line(program.arguments, path)
    name = line.config_name.text if line.config_name else None
    return list(launch_problems(path, launch, line, chosen_of(program.module, config=name)))


@pytest.mark.parametrize(
    "module", ["verl.trainer.main_pp0", "verl.trainer.main_po", "verl.trainers.main_ppo", "verl.trainer.ppo.main_ppo"]
)
def test_a_slip_in_the_name_of_a_module(module: str) -> None:
    found = chosen_of(module)
    assert (found.code, found.severity) == ("VRL332", "error")
    assert found.remark.endswith("write -m verl.trainer.main_ppo")
    assert found.entry is not None
    assert found.entry.entry == "main_ppo"


@pytest.mark.parametrize(
    "module", ["verl.trainer.main_ppo_mine", "verl.trainer.main_ppo2", "verl.trainer.mine", "my.trainer.main_ppo"]
)
def test_a_module_with_a_name_of_its_own_is_somebody_elses(module: str) -> None:
    found = choose_entry(Command(module, "0.9.1", keys=[f"actor_rollout_ref.{name}" for name in "abc"]))
    assert found is not None
    assert (found.code, found.severity) == ("VRL338", None)


def test_a_module_of_another_version_has_one_way_out_or_two() -> None:
    found = chosen_of("verl.trainer.fsdp_sft_trainer")
    assert (found.code, found.severity) == ("VRL332", "error")
    assert found.remark == (
        "verl 0.9.1 has no verl.trainer.fsdp_sft_trainer; verl 0.6.1 is the last that has it, and this launch is"
        " checked for 0.6.1: write verl.trainer.sft_trainer, or check it with --verl-version 0.6.1"
    )
    pinned = chosen_of("verl.trainer.fsdp_sft_trainer", pinned=True)
    assert pinned.entry is None
    assert "this launch is not checked" in pinned.remark


def test_a_recipe_lives_on_elsewhere() -> None:
    assert chosen_of("recipe.one_step_off_policy.main_ppo").severity is None


@pytest.mark.parametrize(
    ("command", "column", "message"),
    [
        ("python3 -m verl.trainer.main_ppo.py", 12, "stands a module, without .py"),
        ("python3 verl.trainer.main_ppo", 9, "for the name of a file"),
    ],
)
def test_a_module_is_started_as_one(command: str, column: int, message: str) -> None:
    (problem,) = said(command)
    assert (problem.code, problem.severity, problem.line, problem.column) == ("VRL332", "error", 1, column)
    assert message in problem.message
    assert problem.suggestion == "write -m verl.trainer.main_ppo"


@pytest.mark.parametrize(
    "command",
    ["python3 -m verl.trainer.main_ppo", "python3 verl/trainer/main_ppo.py", "python3 -u -m verl.trainer.main_ppo"],
)
def test_a_sound_start_is_silent(command: str) -> None:
    assert not said(command)


@pytest.mark.parametrize(
    ("command", "severity", "times"),
    [
        ("torchrun --nproc_per_node=8 -m verl.trainer.main_ppo", "error", "8 times"),
        ("torchrun --nnodes=2 --nproc-per-node 4 -m verl.trainer.main_ppo", "error", "4 times"),
        ("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) -m verl.trainer.main_ppo", "warning", "for each GPU"),
        ("accelerate launch -m verl.trainer.main_ppo", "warning", "for each GPU"),
    ],
)
def test_main_ppo_is_started_once(command: str, severity: str, times: str) -> None:
    (problem,) = said(command)
    assert (problem.code, problem.severity) == ("VRL339", severity)
    assert times in problem.message
    assert (problem.suggestion or "").startswith("start it once, with python3 -m verl.trainer.main_ppo")


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node=1 -m verl.trainer.main_ppo",
        "torchrun --standalone -m verl.trainer.main_ppo",
        "torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer",
    ],
)
def test_one_process_and_the_sft_trainer_may_use_torchrun(command: str) -> None:
    assert not said(command)


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mine.yaml").write_text("trainer:\n  nnodes: 1\n", encoding="utf-8")
    return str(tmp_path / "run.sh")


@pytest.mark.parametrize("written", ["config", "./config"])
def test_a_relative_config_path_beside_the_script(script: str, written: str) -> None:
    (problem,) = said(f"python3 -m verl.trainer.main_ppo --config-path={written} --config-name=mine", script)
    assert (problem.code, problem.severity, problem.column) == ("VRL337", "error", 48)
    assert f"--config-path={written} in verl's folder verl/trainer" in problem.message
    assert problem.suggestion == "write --config-path=$PWD/config"


@pytest.mark.parametrize(
    "options",
    [
        "--config-path=$PWD/config --config-name=mine",
        "--config-path=/abs/config --config-name=mine",
        "--config-path=config --config-name=ppo_trainer",  # verl's own
        "--config-path=config --config-name=nowhere",
        "--config-dir=config --config-name=mine",  # relative to where it is started
    ],
)
def test_other_config_paths_are_silent(script: str, options: str) -> None:
    assert not said(f"python3 -m verl.trainer.main_ppo {options}", script)


def test_a_script_inside_verls_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "verl" / "trainer"
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "mine.yaml").write_text("trainer:\n  nnodes: 1\n", encoding="utf-8")
    command = "python3 -m verl.trainer.main_ppo --config-path=config --config-name=mine"
    assert not said(command, str(folder / "run.sh"))
