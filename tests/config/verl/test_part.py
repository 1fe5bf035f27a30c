"""A YAML with a few keys is a part of a launch: what it leaves out is no fault, what it says is checked."""

from __future__ import annotations

import pytest

from verlcli.config.context import Context, NotKnown
from verlcli.config.problems import Problem
from verlcli.config.verl.check import check_run
from verlcli.config.verl.part import PartOfRun
from verlcli.config.verl.read_hydra import read_hydra_run

OVERLAY = """\
actor_rollout_ref:
  rollout:
    n: 8
    tensor_model_parallel_size: 2
algorithm:
  adv_estimator: gae
"""
WHOLE = OVERLAY + "data:\n  train_files: a.parquet\n"


def checked(text: str) -> list[Problem]:
    run, problems = read_hydra_run("part.yaml", text, Context())
    return [*problems, *check_run(run)]


def test_one_note_takes_the_place_of_what_is_missing() -> None:
    (note,) = [problem for problem in checked(OVERLAY) if "not checked" not in problem.message]
    assert (note.code, note.severity, note.line) == ("VRL329", "note", 1)
    assert note.message.startswith("a part of a config")


def test_what_it_says_is_checked() -> None:
    problems = checked(OVERLAY + "trainer:\n  nnodes: five\n  nnode: 2\n  n_gpus_per_node: 8\n")
    assert {(problem.line, problem.code) for problem in problems} >= {(8, "VRL254"), (9, "VRL240")}


def test_keys_that_stand_together_are_compared() -> None:
    text = "actor_rollout_ref:\n  actor: {use_dynamic_bsz: true}\n  rollout: {log_prob_use_dynamic_bsz: false}\n"
    (problem,) = [problem for problem in checked(text) if problem.code == "VRL209"]
    assert (problem.severity, problem.line) == ("error", 3)


def test_defaults_are_not_taken_for_granted() -> None:
    run, _ = read_hydra_run("part.yaml", OVERLAY, Context())
    assert isinstance(run, PartOfRun)
    assert run.get("actor_rollout_ref.rollout.n") == 8
    with pytest.raises(NotKnown):
        run.get("trainer.nnodes")


@pytest.mark.parametrize(
    "text",
    [
        "actor_rollout_ref:\n  model: {path: x}\ndata:\n  train_files: a.parquet\n",
        "model: {path: x}\noptim: {lr: 1e-6}\ndata: {train_files: a.parquet}\n",
        "defaults: [my_base, _self_]\ntrainer: {nnodes: 2}\nactor_rollout_ref: {rollout: {n: 2}}\n",
    ],
)
def test_a_launch_with_model_and_data_is_whole_and_an_unread_base_says_so_itself(text: str) -> None:
    run, _ = read_hydra_run("whole.yaml", text, Context())
    assert not isinstance(run, PartOfRun)


def test_what_a_whole_config_leaves_out_is_reported() -> None:
    codes = {problem.code for problem in checked(WHOLE.replace("rollout:", "model: {path: x}\n  rollout:", 1))}
    assert {"VRL210", "VRL232", "VRL261"} <= codes


def test_dotted_keys_are_said_once_with_the_way_to_nest_them() -> None:
    problems = checked("actor_rollout_ref.rollout.n: 8\ntrainer.nnodes: 2\n")
    (problem,) = [each for each in problems if each.severity == "error"]
    assert (problem.code, problem.line, problem.path) == ("VRL240", 1, "actor_rollout_ref.rollout.n")
    assert "does not read dotted keys in a file" in problem.message
    assert problem.message.endswith("(1 more)")
    assert problem.suggestion == "nest them: actor_rollout_ref: {rollout: {n: 8}}"
