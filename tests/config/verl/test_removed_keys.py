"""`~key`: what verl reads by name must stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import Problem
from verlcli.config.verl.keys import check_keys
from verlcli.config.verl.run import VerlRun

RunOf = Callable[..., VerlRun]


def found(run: VerlRun) -> list[Problem]:
    return [problem for _, problem in check_keys(run) if problem.code in ("VRL259", "VRL266")]


@pytest.mark.parametrize("version", ["0.5.0", "0.9.1", "main"])
@pytest.mark.parametrize("key", ["trainer.logger", "data.train_files", "trainer.nnodes", "trainer"])
def test_what_every_run_reads_must_stay(run_of: RunOf, version: str, key: str) -> None:
    (problem,) = found(run_of(f"~{key}", version=version))
    assert (problem.code, problem.severity, problem.path) == ("VRL266", "error", key)
    assert f"~{key} leaves nothing where verl reads it" in problem.message
    assert (problem.suggestion or "").startswith("remove this override")
    assert ("=VALUE" in (problem.suggestion or "")) == ("." in key)


def test_what_some_runs_read_is_doubtful(run_of: RunOf) -> None:
    (problem,) = found(run_of("~trainer.device"))
    assert (problem.code, problem.severity) == ("VRL266", "warning")
    assert "in some runs" in problem.message


@pytest.mark.parametrize(
    "overrides",
    [
        ("~trainer.logger", "+trainer.logger=[console]"),
        ("~trainer", "+trainer.logger=[console]"),
        ("~actor_rollout_ref.rollout.val_kwargs.n",),
    ],
)
def test_what_comes_back_or_has_a_default_is_silent(run_of: RunOf, overrides: tuple[str, ...]) -> None:
    assert not found(run_of(*overrides))


def test_a_setting_before_it_does_not_bring_it_back(run_of: RunOf) -> None:
    assert [problem.code for problem in found(run_of("trainer.logger=[console]", "~trainer.logger"))] == ["VRL266"]


def test_more_arguments_may_bring_it_back(run_of: RunOf) -> None:
    assert [problem.severity for problem in found(run_of("~trainer.logger", takes_arguments=True))] == ["warning"]


def test_what_is_not_there_cannot_be_removed(run_of: RunOf) -> None:
    assert [problem.code for problem in found(run_of("~trainer.foo"))] == ["VRL259"]
