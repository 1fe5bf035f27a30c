from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from verlcli.config.problems import Place, Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
ASYNC = "actor_rollout_ref.actor.checkpoint.async_save=True"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code]


@pytest.mark.parametrize(("frequency", "severity"), [(20, "error"), (-1, "warning")])
def test_asynchronous_saves_of_fsdp(problems_of: ProblemsOf, frequency: int, severity: str) -> None:
    (problem,) = of("VRL229", problems_of(ASYNC, f"trainer.save_freq={frequency}"))
    assert (problem.severity, problem.path, problem.line) == (severity, ASYNC[:-5], FIRST)
    assert "begins at step 0" in problem.message
    assert problem.fix is not None
    assert problem.fix.to is False


def test_asynchronous_saves_of_megatron(problems_of: ProblemsOf) -> None:
    assert of("VRL229", problems_of(ASYNC, engine="megatron")) == []
    assert of("VRL229", problems_of(ASYNC, version="0.6.1")) == []


def test_resuming_from_a_path_that_is_not_given(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL230", problems_of("trainer.resume_mode=resume_path"))
    assert (problem.severity, problem.path, problem.line) == ("error", "trainer.resume_mode", FIRST)
    assert "trainer.resume_from_path is not set" in problem.message


def test_resuming_from_a_path_without_a_step(problems_of: ProblemsOf) -> None:
    mode, path = "trainer.resume_mode=resume_path", "trainer.resume_from_path=checkpoints/last"
    (problem,) = of("VRL230", problems_of(mode, path))
    assert (problem.severity, problem.path, problem.line) == ("error", "trainer.resume_from_path", FIRST + 1)
    assert problem.suggestion == "name the folder of a step: .../global_step_100"
    assert of("VRL230", problems_of(mode, path.replace("last", "global_step_5"))) == []


def test_a_path_that_the_mode_does_not_read(problems_of: ProblemsOf) -> None:
    path = "trainer.resume_from_path=checkpoints/global_step_5"
    (problem,) = of("VRL230", problems_of(path))
    assert (problem.severity, problem.line) == ("warning", FIRST)
    assert "trainer.resume_mode='auto' (verl's default)" in problem.message
    assert [p.severity for p in of("VRL230", problems_of("trainer.resume_from_path=checkpoints"))] == ["note"]


def test_a_checkpoint_that_is_not_here(problems_of: ProblemsOf, tmp_path: Path) -> None:
    step = tmp_path / "global_step_5"
    overrides = ("trainer.resume_mode=resume_path", f"trainer.resume_from_path={step}")
    assert [problem.severity for problem in of("VRL230", problems_of(*overrides))] == ["warning"]
    step.mkdir()
    assert of("VRL230", problems_of(*overrides)) == []


def saved(folder: Path, ranks: int) -> str:
    actor = folder / "global_step_40" / "actor"
    actor.mkdir(parents=True)
    (actor / f"model_world_size_{ranks}_rank_0.pt").touch()
    (folder / "latest_checkpointed_iteration.txt").write_text("40")
    return f"trainer.default_local_dir={folder}"


def test_a_checkpoint_of_other_ranks(problems_of: ProblemsOf, tmp_path: Path) -> None:
    (problem,) = of("VRL230", problems_of(saved(tmp_path, 8), "trainer.nnodes=2"))
    assert (problem.severity, problem.path, problem.line) == ("error", "trainer.default_local_dir", FIRST)
    assert "which 8 ranks saved; 16 cannot read it" in problem.message
    assert problem.suggestion == "train on 8 GPUs, or set trainer.resume_mode=disable"


def test_a_checkpoint_that_can_be_read(problems_of: ProblemsOf, tmp_path: Path) -> None:
    folder = saved(tmp_path, 8)
    assert of("VRL230", problems_of(folder)) == []
    assert of("VRL230", problems_of(folder, "trainer.nnodes=2", "trainer.resume_mode=disable")) == []
    assert of("VRL230", problems_of(folder, "trainer.nnodes=2", engine="megatron")) == []


def test_a_folder_that_only_the_run_knows(run_of: Callable[..., VerlRun]) -> None:
    run = run_of("trainer.nnodes=2")
    place = Place("run.sh", 9, 1)
    unknown = Setting("trainer.default_local_dir", UNKNOWN, place, place, written="trainer.default_local_dir")
    assert of("VRL230", list(check_rules(replace(run, settings=(*run.settings, unknown))))) == []


@pytest.mark.parametrize("text", ["", "forty", "9999999999999999999999999999999999999"])
def test_a_tracker_that_says_nothing(problems_of: ProblemsOf, tmp_path: Path, text: str) -> None:
    folder = saved(tmp_path, 8)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(text)
    assert of("VRL230", problems_of(folder, "trainer.nnodes=2")) == []


MANY = ("trainer.save_freq=10", "trainer.total_training_steps=100")


def test_checkpoints_that_do_not_fit(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL231", problems_of(*MANY, cluster="8xA100-80G,disk=500G"))
    assert (problem.severity, problem.path, problem.line) == ("warning", "trainer.save_freq", FIRST)
    assert "10 checkpoints of 85 GiB take 851 GiB; the disk has 500 GiB" in problem.message
    assert problem.suggestion == "set trainer.max_actor_ckpt_to_keep=4"


@pytest.mark.parametrize(
    ("more", "cluster"),
    [
        ((), "8xA100-80G,disk=1T"),
        (("trainer.max_actor_ckpt_to_keep=3",), "8xA100-80G,disk=500G"),
        (("actor_rollout_ref.actor.checkpoint.save_contents=[model]",), "8xA100-80G,disk=500G"),
        (("actor_rollout_ref.model.lora_rank=32",), "8xA100-80G,disk=500G"),
        ((), "8xA100-80G"),
        (("trainer.save_freq=-1",), "8xA100-80G,disk=500G"),
        (("trainer.nnodes=2",), "8xA100-80G,nodes=2,disk=500G"),
    ],
)
def test_checkpoints_that_fit(problems_of: ProblemsOf, more: tuple[str, ...], cluster: str) -> None:
    assert of("VRL231", problems_of(*MANY, *more, cluster=cluster)) == []


def test_checkpoints_of_a_model_that_is_not_known(problems_of: ProblemsOf) -> None:
    found = problems_of(*MANY, "actor_rollout_ref.model.path=me/mine", cluster="8xA100-80G,disk=500G")
    assert of("VRL231", found) == []
    (needed,) = [problem.message for problem in found if problem.unchecked and "VRL231" in problem.message]
    assert needed.startswith("not checked: needs the config.json of me/mine")


def test_the_only_checkpoint(problems_of: ProblemsOf) -> None:
    one = ("trainer.max_actor_ckpt_to_keep=1", "trainer.save_freq=10")
    (problem,) = of("VRL231", problems_of(*one, version="0.6.1"))
    assert (problem.severity, problem.line, problem.suggestion) == (
        "warning",
        FIRST,
        "set trainer.max_actor_ckpt_to_keep=2",
    )
    assert of("VRL231", problems_of(*one, version="0.7.1")) == []


def test_a_run_that_saves_nothing(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL277", problems_of())
    assert (problem.severity, problem.path, problem.line) == ("note", "trainer.save_freq", 1)
    assert of("VRL277", problems_of("trainer.save_freq=-1")) == []
    assert of("VRL277", problems_of("trainer.val_only=True")) == []


def test_megatron_without_its_bridge(problems_of: ProblemsOf) -> None:
    off = "actor_rollout_ref.actor.megatron.use_mbridge=False"
    (problem,) = of("VRL238", problems_of(off, engine="megatron"))
    assert (problem.severity, problem.path, problem.line) == ("error", off[:-6], FIRST)
    assert problem.fix is not None
    assert problem.fix.to is True
    assert of("VRL238", problems_of(off, engine="megatron", version="0.7.1")) == []
    assert of("VRL238", problems_of(engine="megatron")) == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ('{"FSDP_version": 2, "world_size": 8}', ["warning"]),
        ('{"FSDP_version": 1, "world_size": 8}', []),
        ('{"FSDP_version": 1, "world_size": 4}', ["error"]),
        ('{"FSDP_version": "x"}', []),
        ("[1]", []),
        ("{", []),
    ],
)
def test_what_a_checkpoint_says_of_itself(
    problems_of: ProblemsOf, tmp_path: Path, said: str, expected: list[str]
) -> None:
    step = tmp_path / "global_step_5"
    (step / "actor").mkdir(parents=True)
    (step / "actor" / "fsdp_config.json").write_text(said)
    found = of("VRL230", problems_of("trainer.resume_mode=resume_path", f"trainer.resume_from_path={step}"))
    assert [problem.severity for problem in found] == expected
    if expected == ["warning"]:
        assert "which fsdp2 saved, with actor_rollout_ref.actor.strategy='fsdp'" in found[0].message
        assert found[0].suggestion is not None
        assert "actor_rollout_ref.actor.strategy=fsdp2" in found[0].suggestion


def test_advice_for_a_config_of_ours_names_its_own_values(run_of: Callable[..., VerlRun], tmp_path: Path) -> None:
    ours = replace(run_of(), source="config", names={"trainer.save_freq": "trainer.save_freq"})
    (problem,) = of("VRL277", list(check_rules(ours)))
    assert problem.suggestion == "set trainer.save_freq: 20, or 0 to save at the end alone"
    (problem,) = of("VRL277", list(check_rules(run_of())))
    assert problem.suggestion == "set trainer.save_freq=20, or -1 to say that this is meant"
    resumed = run_of(saved(tmp_path, 8), "trainer.nnodes=2")
    (problem,) = of("VRL230", list(check_rules(replace(resumed, source="config"))))
    assert (problem.suggestion or "").endswith(": never")
