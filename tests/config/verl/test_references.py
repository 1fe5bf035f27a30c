"""`${...}` in a value: the key that it names must be in the launch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.verl.keys import check_keys
from verlcli.config.verl.read_hydra import read_hydra_run
from verlcli.config.verl.run import VerlRun

RunOf = Callable[..., VerlRun]
MISSING = "trainer.default_local_dir=/ckpt/${trainer.experiment_nam}"


def found(run: VerlRun) -> list[Problem]:
    return [problem for _, problem in check_keys(run) if problem.code == "VRL267"]


def test_a_misspelt_reference_is_an_error_with_the_key_that_is_meant(run_of: RunOf) -> None:
    (problem,) = found(run_of(MISSING))
    assert (problem.severity, problem.path) == ("error", "trainer.default_local_dir")
    assert problem.column == 3 + len("trainer.default_local_dir=")
    assert "${trainer.experiment_nam} refers to a key that verl 0.9.1 does not have" in problem.message
    assert problem.suggestion == "did you mean ${trainer.experiment_name}?"


def test_a_list_is_looked_into(run_of: RunOf) -> None:
    (problem,) = found(run_of("data.train_files=[a.parquet,${data.val_file}]"))
    assert problem.suggestion == "did you mean ${data.val_files}?"


def test_what_resembles_nothing_is_to_be_added(run_of: RunOf) -> None:
    (problem,) = found(run_of("trainer.project_name=${qqq}"))
    assert problem.suggestion == "name a key of this launch, or add +qqq=VALUE"


@pytest.mark.parametrize(
    "override",
    [
        "trainer.default_local_dir=/ckpt/${trainer.experiment_name}",
        "trainer.default_local_dir=/ckpt/${.experiment_name}",
        "trainer.default_local_dir=${oc.env:NOWHERE}/${now:%Y}",
        "trainer.default_local_dir=${oc.select:no.such.key,x}",
        "trainer.default_local_dir=${hydra:runtime.cwd}",
        "data.custom_cls.name=${reward.custom_reward_function}",  # a section
        "trainer.project_name=${data.train_files.0}",  # inside a value
        "trainer.project_name=${ray_kwargs.ray_init.some_key}",  # free keys
    ],
)
def test_what_exists_or_is_made_by_a_resolver_is_silent(run_of: RunOf, override: str) -> None:
    assert not found(run_of(override))


def test_a_key_that_the_launch_adds_can_be_referred_to(run_of: RunOf) -> None:
    assert not found(run_of("+mine.root=/ckpt", "trainer.default_local_dir=${mine.root}/a"))


def test_relative_names_start_at_the_section(run_of: RunOf) -> None:
    (problem,) = found(run_of("trainer.default_local_dir=/ckpt/${.experiment_nam}"))
    assert "${.experiment_nam}" in problem.message


def test_more_arguments_may_bring_the_key(run_of: RunOf) -> None:
    assert [problem.severity for problem in found(run_of(MISSING, takes_arguments=True))] == ["warning"]
    assert not found(run_of("trainer.project_name=${mine}", takes_arguments=True))


def test_a_config_that_is_not_seen_may_have_the_key(run_of: RunOf) -> None:
    assert not found(run_of(MISSING, unseen="the config 'x'"))


def test_another_program_may_not_resolve_the_config(run_of: RunOf) -> None:
    assert [problem.severity for problem in found(run_of(MISSING, entry="main_ppo"))] == ["error"]
    run = run_of(MISSING)
    object.__setattr__(run, "entry", "my/main.py")
    assert [problem.severity for problem in found(run)] == ["warning"]


def test_a_yaml_is_checked_too() -> None:
    text = (
        "data:\n  train_files: a.parquet\nactor_rollout_ref:\n  model: {path: x}\n"
        "  rollout:\n    name: vllm\n    prompt_length: ${data.max_prompt_lenght}\n"
    )
    run, _ = read_hydra_run("mine.yaml", text, Context())
    (problem,) = found(run)
    assert (problem.severity, problem.line) == ("error", 7)
    assert problem.suggestion == "did you mean ${data.max_prompt_length}?"
