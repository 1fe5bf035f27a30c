from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR, ROLLOUT, REF = (f"actor_rollout_ref.{name}" for name in ("actor", "rollout", "ref"))
DYNAMIC, FOLLOWS = f"{ACTOR}.use_dynamic_bsz", f"{ROLLOUT}.log_prob_use_dynamic_bsz"
NAMED = ("algorithm.adv_estimator=grpo", f"{ROLLOUT}.name=vllm")


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


@pytest.mark.parametrize(("update", "log_prob"), [(True, False), (False, True)])
def test_flags_that_differ(problems_of: ProblemsOf, update: bool, log_prob: bool) -> None:
    (found,) = of("VRL209", problems_of(f"{DYNAMIC}={update}", f"{FOLLOWS}={log_prob}"))
    assert (found.severity, found.path, found.line) == ("error", FOLLOWS, FIRST + 1)
    assert found.suggestion == f"set {FOLLOWS}={update}"
    assert found.fix is not None
    assert (found.fix.key, found.fix.to) == (FOLLOWS, update)
    assert [other.path for other in found.related] == [DYNAMIC]


@pytest.mark.parametrize("overrides", [(f"{DYNAMIC}=True",), (f"{DYNAMIC}=True", f"{FOLLOWS}=True"), ()])
def test_flags_that_agree(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL209", problems_of(*overrides)) == []


def test_flags_of_two_passes(problems_of: ProblemsOf) -> None:
    assert of("VRL209", problems_of(f"{DYNAMIC}=True", f"{FOLLOWS}=False", version="0.7.1")) == []
    assert len(of("VRL209", problems_of(f"{DYNAMIC}=True", f"{FOLLOWS}=False", version="0.8.0"))) == 1


def test_no_size_at_all(problems_of: ProblemsOf) -> None:
    found = of("VRL210", problems_of(*NAMED, f"{ACTOR}.use_kl_loss=True", bare=True))
    assert [problem.path for problem in found] == [
        f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        f"{REF}.log_prob_micro_batch_size_per_gpu",
    ]
    assert {(problem.severity, problem.line) for problem in found} == {("error", 1)}
    assert found[0].suggestion == f"write 1 or more here, or {DYNAMIC}=True"
    assert found[0].message == "not set: how many sequences a GPU takes at once"


def test_a_critic_needs_one_too(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL210", problems_of("critic.enable=True"))
    assert found.path == "critic.ppo_micro_batch_size_per_gpu"


@pytest.mark.parametrize("overrides", [(*NAMED, f"{DYNAMIC}=True"), (*NAMED, f"{DYNAMIC}=True", "critic.enable=True")])
def test_dynamic_batches_need_none(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL210", problems_of(*overrides, bare=True)) == []


def test_a_reference_of_fixed_batches(problems_of: ProblemsOf) -> None:
    overrides = (*NAMED, f"{DYNAMIC}=True", f"{REF}.log_prob_use_dynamic_bsz=False", f"{ACTOR}.use_kl_loss=True")
    (found,) = of("VRL210", problems_of(*overrides, bare=True))
    assert found.path == f"{REF}.log_prob_use_dynamic_bsz"  # the key that is set
    assert f"{REF}.log_prob_micro_batch_size_per_gpu is not set" in found.message


@pytest.mark.parametrize("key", [f"{ACTOR}.ppo_micro_batch_size", f"{ROLLOUT}.log_prob_micro_batch_size"])
def test_sizes_said_twice(problems_of: ProblemsOf, key: str) -> None:
    (found,) = of("VRL210", problems_of(f"{key}=8"))
    assert (found.severity, found.path, found.line) == ("error", key, FIRST)
    assert f"{key}=8 beside {key}_per_gpu=4: verl refuses both at once" in found.message
    assert found.fix is not None
    assert (found.fix.action, found.fix.key) == ("remove", key)


def test_a_size_for_all_gpus(problems_of: ProblemsOf) -> None:
    sizes = (f"{ACTOR}.ppo_micro_batch_size=64", f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=4")
    (found,) = of("VRL210", problems_of(*NAMED, *sizes, bare=True))
    assert (found.severity, found.line) == ("error", 4)
    assert "is no longer read by the workers" in found.message
    assert found.suggestion == f"write {ACTOR}.ppo_micro_batch_size_per_gpu, in sequences per GPU, instead"
    assert of("VRL210", problems_of(*NAMED, *sizes, bare=True, version="0.6.1")) == []


def test_a_size_that_is_missed_at_the_flag(problems_of: ProblemsOf) -> None:
    found = of("VRL210", problems_of(*NAMED, f"{DYNAMIC}=False", bare=True))
    assert {problem.path for problem in found} == {DYNAMIC}
    message = f"{ACTOR}.ppo_micro_batch_size_per_gpu is not set: how many sequences a GPU takes at once"
    assert found[0].message == message
