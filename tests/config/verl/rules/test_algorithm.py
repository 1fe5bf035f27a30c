from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from verlcli.config.problems import Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.run import VerlRun

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test: the sound launch before it has eight

# overrides, version; then code, severity, key, line, parts of the sentence
FIRING: list[tuple[list[str], str, tuple[str, str, str, int], list[str]]] = [
    (
        ["algorithm.adv_estimator=gae", "critic.ppo_micro_batch_size_per_gpu=4"],
        "0.9.1",
        ("VRL232", "error", "algorithm.adv_estimator", FIRST),
        ["critic.model.path is verl's placeholder ~/models/deepseek-llm-7b-chat", "algorithm.adv_estimator=grpo"],
    ),
    (
        ["critic.enable=true"],
        "0.9.1",
        ("VRL232", "error", "critic.enable", FIRST),
        ["critic.enable=true trains a critic, but"],
    ),
    (
        ["actor_rollout_ref.rollout.n=1"],
        "0.9.1",
        ("VRL233", "warning", "actor_rollout_ref.rollout.n", FIRST),
        ["grpo compares the samples of a prompt", "to 4 or more"],
    ),
    (
        ["algorithm.adv_estimator=rloo", "actor_rollout_ref.rollout.n=1"],
        "0.6.1",
        ("VRL233", "warning", "actor_rollout_ref.rollout.n", FIRST + 1),
        ["rloo compares"],
    ),
    (
        ["actor_rollout_ref.rollout.temperature=0"],
        "0.9.1",
        ("VRL233", "error", "actor_rollout_ref.rollout.temperature", FIRST),
        ["gradient 0 or NaN", "temperature=1.0"],
    ),
    (
        ["actor_rollout_ref.rollout.val_kwargs.do_sample=True"],
        "0.9.1",
        ("VRL233", "warning", "actor_rollout_ref.rollout.val_kwargs.do_sample", FIRST),
        ["validation decodes greedily"],
    ),
    (
        ["actor_rollout_ref.actor.clip_ratio=0.28"],
        "0.9.1",
        ("VRL278", "warning", "actor_rollout_ref.actor.clip_ratio", FIRST),
        ["has no effect", "clip_ratio_low=0.2", "clip_ratio_high=0.2"],
    ),
    (
        ["actor_rollout_ref.actor.clip_ratio_low=0.28", "actor_rollout_ref.actor.clip_ratio_high=0.2"],
        "0.9.1",
        ("VRL278", "warning", "actor_rollout_ref.actor.clip_ratio_low", FIRST),
        ["0.72 ... 1.2", "swap"],
    ),
    (
        ["algorithm.use_kl_in_reward=True", "actor_rollout_ref.actor.use_kl_loss=True"],
        "0.9.1",
        ("VRL275", "note", "algorithm.use_kl_in_reward", FIRST),
        ["in rewards and loss", "keep one"],
    ),
    (
        ["actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.0"],
        "0.9.1",
        ("VRL275", "note", "actor_rollout_ref.actor.kl_loss_coef", FIRST + 1),
        ["counts nothing", "use_kl_loss=False"],
    ),
    (
        ["algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=null"],
        "0.9.1",
        ("VRL272", "error", "algorithm.filter_groups.metric", FIRST + 1),
        ["needs a metric", "such as acc"],
    ),
    (
        ["algorithm.filter_groups.enable=True", "reward.reward_model.enable=True"],
        "0.9.1",
        ("VRL272", "error", "algorithm.filter_groups.enable", FIRST),
        ["at sampling time", "enable_resource_pool=True"],
    ),
    (
        ["algorithm.filter_groups.enable=True"],
        "0.8.0",
        ("VRL272", "error", "algorithm.filter_groups.enable", FIRST),
        ["main_ppo of verl 0.8.0 does not read it", "recipe.dapo.main_dapo"],
    ),
]


@pytest.mark.parametrize(("overrides", "version", "where", "parts"), FIRING)
def test_fires(
    problems_of: ProblemsOf, overrides: list[str], version: str, where: tuple[Any, ...], parts: list[str]
) -> None:
    found = [problem for problem in problems_of(*overrides, version=version) if problem.code == where[0]]
    assert [(p.code, p.severity, p.path, p.line) for p in found] == [where]
    for part in parts:
        assert part in found[0].sentence


@pytest.mark.parametrize(
    ("code", "overrides", "version"),
    [
        ("VRL232", ["algorithm.adv_estimator=gae", "critic.model.path=Qwen/Qwen2.5-7B"], "0.9.1"),
        ("VRL232", ["algorithm.adv_estimator=gae", "critic.enable=false"], "0.9.1"),
        ("VRL233", ["actor_rollout_ref.rollout.n=2"], "0.9.1"),
        ("VRL233", ["actor_rollout_ref.rollout.n=1", "distillation.enabled=True"], "0.9.1"),
        ("VRL278", ["actor_rollout_ref.actor.clip_ratio_low=10"], "0.9.1"),
        ("VRL233", ["algorithm.adv_estimator=reinforce_plus_plus", "actor_rollout_ref.rollout.n=1"], "0.9.1"),
        ("VRL233", ["actor_rollout_ref.rollout.val_kwargs.temperature=0"], "0.9.1"),
        (
            "VRL233",
            [
                "actor_rollout_ref.rollout.val_kwargs.do_sample=True",
                "actor_rollout_ref.rollout.val_kwargs.temperature=0.6",
            ],
            "0.9.1",
        ),
        ("VRL278", ["actor_rollout_ref.actor.clip_ratio=0.2"], "0.9.1"),
        ("VRL278", ["actor_rollout_ref.actor.clip_ratio_high=0.28"], "0.9.1"),
        ("VRL278", ["actor_rollout_ref.actor.clip_ratio=0.3", "actor_rollout_ref.actor.clip_ratio_high=0.3"], "0.9.1"),
        ("VRL275", ["actor_rollout_ref.actor.kl_loss_coef=0"], "0.9.1"),
        ("VRL275", ["algorithm.use_kl_in_reward=True"], "0.9.1"),
        ("VRL272", ["algorithm.filter_groups.enable=True"], "0.9.1"),
        ("VRL272", ["algorithm.filter_groups.metric=null"], "0.9.1"),
    ],
)
def test_near_misses_are_silent(problems_of: ProblemsOf, code: str, overrides: list[str], version: str) -> None:
    assert [problem for problem in problems_of(*overrides, version=version) if problem.code == code] == []


def test_the_fix_of_a_reference_for_nothing_switches_it_off(problems_of: ProblemsOf) -> None:
    overrides = ["actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0"]
    problem = next(p for p in problems_of(*overrides) if p.code == "VRL275")
    assert problem.fix is not None
    assert (problem.fix.action, problem.fix.key, problem.fix.to) == (
        "set",
        "actor_rollout_ref.actor.use_kl_loss",
        False,
    )
    assert problem.fix.place.line == FIRST


def test_programs_that_train_nothing_need_no_critic(run_of: Callable[..., VerlRun]) -> None:
    run = run_of("algorithm.adv_estimator=gae")
    assert "VRL232" in {problem.code for problem in check_rules(run)}
    assert "VRL232" not in {problem.code for problem in check_rules(replace(run, entry="vla"))}


@pytest.mark.parametrize(
    ("code", "overrides"),
    [
        ("VRL278", ["actor_rollout_ref.actor.clip_ratio_low=0.3"]),
        ("VRL278", ["actor_rollout_ref.actor.clip_ratio=0.3"]),
        ("VRL244", ["critic.model.path=/models/qwen"]),
        ("VRL225", ["data.train_files=/nope.parquet"]),
        ("VRL247", ["reward.custom_reward_function.path=/nope.py"]),
    ],
)
def test_what_rules_of_our_own_keys_say_is_not_said_twice(
    run_of: Callable[..., VerlRun], code: str, overrides: list[str]
) -> None:
    script = run_of(*overrides)
    ours = replace(script, source="config")
    below = replace(ours, settings=tuple(replace(each, written=f"verl.{each.key}") for each in script.settings))
    assert [code in {p.code for p in check_rules(run)} for run in (script, ours, below)] == [True, False, True]
