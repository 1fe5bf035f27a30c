from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from verlcli.config.problems import Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
SEPARATE = (
    "trainer.v1.trainer_mode=separate_async",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=4",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl",
)
FULLY = ("data.train_batch_size=0", "data.gen_batch_size=1", "actor_rollout_ref.hybrid_engine=False")


def of(code: str, problems: list[Problem]) -> list[tuple[str, str, int]]:
    return [(problem.severity, problem.path, problem.line) for problem in problems if problem.code == code]


def test_separate_async_without_gpus_of_its_own(problems_of: ProblemsOf) -> None:
    found = [p for p in problems_of("trainer.v1.trainer_mode=separate_async") if p.code == "VRL228"]
    assert {(p.severity, p.path, p.line) for p in found} == {("error", "trainer.v1.trainer_mode", FIRST)}
    text = " ".join(problem.sentence for problem in found)
    assert "actor_rollout_ref.rollout.nnodes" in text
    assert "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl" in text


def test_separate_async_with_all_it_needs(problems_of: ProblemsOf) -> None:
    assert of("VRL228", problems_of(*SEPARATE)) == []
    assert of("VRL228", problems_of("trainer.v1.trainer_mode=colocate_async")) == []


def test_separate_async_with_a_batch_that_is_no_whole_number_of_updates(problems_of: ProblemsOf) -> None:
    (problem,) = (p for p in problems_of(*SEPARATE, "data.train_batch_size=512") if p.code == "VRL228")
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_batch_size", FIRST + 4)
    assert "4 sync steps × 256 = 1024 prompts, not 512" in problem.message
    assert problem.suggestion is not None
    assert problem.suggestion.endswith("parameter_sync_step=2")


def test_separate_async_with_a_reward_model_on_its_gpus(problems_of: ProblemsOf) -> None:
    found = problems_of(*SEPARATE, "reward.reward_model.enable=True")
    assert of("VRL228", found) == [("error", "trainer.v1.trainer_mode", FIRST)]


def test_fully_async_needs_its_settings(problems_of: ProblemsOf) -> None:
    found = [p for p in problems_of("data.train_batch_size=512", entry="fully_async") if p.code == "VRL234"]
    assert {(p.severity, p.path, p.line) for p in found} == {
        ("error", "data.train_batch_size", FIRST),
        ("error", "actor_rollout_ref.hybrid_engine", 1),
    }
    assert found[0].suggestion == "set data.train_batch_size=0"
    assert found[0].fix is not None
    assert found[0].fix.to == 0


def test_fully_async_with_its_settings(problems_of: ProblemsOf) -> None:
    assert of("VRL234", problems_of(*FULLY, entry="fully_async")) == []
    off = "actor_rollout_ref.rollout.calculate_log_probs=False"
    assert of("VRL234", problems_of(*FULLY, off, entry="fully_async")) == [("error", off[:-6], FIRST + 3)]


def test_one_step_off_needs_an_engine_apart(problems_of: ProblemsOf) -> None:
    assert of("VRL234", problems_of(entry="one_step_off")) == [("error", "actor_rollout_ref.hybrid_engine", 1)]
    assert of("VRL234", problems_of("actor_rollout_ref.hybrid_engine=False", entry="one_step_off")) == []


def test_a_batch_that_does_not_divide_over_the_agents(problems_of: ProblemsOf) -> None:
    odd = ("data.train_batch_size=20", "actor_rollout_ref.rollout.n=3")
    assert of("VRL241", problems_of(*odd, version="0.8.0")) == [("warning", "data.train_batch_size", FIRST)]
    (problem,) = (p for p in problems_of(*odd, version="0.7.1") if p.code == "VRL241")
    assert (problem.severity, problem.path, problem.line) == ("error", "data.train_batch_size", FIRST)
    assert "20 prompts × 3 samples = 60 do not divide over 8 agent workers; 4 are left over" in problem.message
    assert problem.suggestion == "set actor_rollout_ref.rollout.agent.num_workers=6"
    assert of("VRL241", problems_of(*odd)) == []
    assert of("VRL241", problems_of(*odd, "trainer.use_v1=False")) == [("error", "data.train_batch_size", FIRST)]
    assert of("VRL241", problems_of("data.train_batch_size=20", version="0.8.0")) == []


@pytest.mark.parametrize(("share", "severity"), [(0.8, "warning"), (0.5, "note")])
def test_a_cache_that_is_kept(problems_of: ProblemsOf, share: float, severity: str) -> None:
    keep = "actor_rollout_ref.rollout.free_cache_engine=False"
    (problem,) = (
        p for p in problems_of(keep, f"actor_rollout_ref.rollout.gpu_memory_utilization={share}") if p.code == "VRL242"
    )
    assert (problem.severity, problem.line) == (severity, FIRST)
    assert f"{share:.0%} of each GPU" in problem.message
    assert [other.path for other in problem.related] == ["actor_rollout_ref.rollout.gpu_memory_utilization"]


def test_a_cache_that_is_kept_on_gpus_of_its_own(problems_of: ProblemsOf) -> None:
    keep = "actor_rollout_ref.rollout.free_cache_engine=False"
    assert of("VRL242", problems_of(*SEPARATE, keep)) == []
    assert of("VRL242", problems_of(keep, "actor_rollout_ref.hybrid_engine=False")) == []


def test_validation_alone_that_is_switched_off(problems_of: ProblemsOf) -> None:
    (problem,) = (
        p for p in problems_of("trainer.val_only=True", "trainer.val_before_train=False") if p.code == "VRL276"
    )
    assert (problem.severity, problem.path, problem.line) == ("error", "trainer.val_before_train", FIRST + 1)
    assert problem.fix is not None
    assert (problem.fix.to, problem.fix.place.line) == (True, FIRST + 1)
    assert of("VRL276", problems_of("trainer.val_only=True")) == []
    assert of("VRL276", problems_of("trainer.val_before_train=False")) == []


@pytest.mark.parametrize(
    ("override", "severity", "part"),
    [
        ("global_profiler.steps=[1]", "warning", "without global_profiler.tool"),
        ("global_profiler.tool=nsys", "note", "without global_profiler.steps"),
    ],
)
def test_profiling_that_records_nothing(problems_of: ProblemsOf, override: str, severity: str, part: str) -> None:
    (problem,) = (p for p in problems_of(override) if p.code == "VRL248")
    assert (problem.severity, problem.path, problem.line) == (severity, override.partition("=")[0], FIRST)
    assert part in problem.message


def test_profiling_that_records(problems_of: ProblemsOf) -> None:
    assert of("VRL248", problems_of("global_profiler.steps=[1]", "global_profiler.tool=torch")) == []
    assert of("VRL248", problems_of("global_profiler.tool=torch_memory")) == []


def test_replayed_routes_need_their_pass(problems_of: ProblemsOf) -> None:
    replay = "actor_rollout_ref.actor.megatron.router_replay.mode=R2"
    bypass = "algorithm.rollout_correction.bypass_mode=True"
    more: dict[str, Any] = {"engine": "megatron"}
    assert of("VRL249", problems_of(replay, bypass, **more)) == [("error", bypass[:-5], FIRST + 1)]
    assert of("VRL249", problems_of(replay, **more)) == []
    assert of("VRL249", problems_of(replay.replace("R2", "R3"), bypass, **more)) == []


BACKEND = "actor_rollout_ref.rollout.checkpoint_engine.backend"


@pytest.mark.parametrize("entry", ["fully_async", "one_step_off"])
def test_weights_that_do_not_leave_the_process(problems_of: ProblemsOf, entry: str) -> None:
    found = [p for p in problems_of(f"{BACKEND}=naive", entry=entry) if p.path == BACKEND]
    assert [(p.code, p.severity, p.line) for p in found] == [("VRL234", "error", FIRST)]
    assert found[0].suggestion == f"set {BACKEND}=nccl"
    assert found[0].fix is not None
    assert found[0].fix.to == "nccl"


@pytest.mark.parametrize(
    ("overrides", "entry"),
    [
        ((), "fully_async"),
        ((f"{BACKEND}=nixl",), "one_step_off"),
        ((f"{BACKEND}=naive",), "main_ppo"),
        ((f"{BACKEND}=naive", "rollout.nnodes=0"), "fully_async"),
    ],
)
def test_weights_that_arrive(problems_of: ProblemsOf, overrides: tuple[str, ...], entry: str) -> None:
    assert [p for p in problems_of(*overrides, entry=entry) if p.path == BACKEND] == []
