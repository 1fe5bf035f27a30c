from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ROLLOUT = "actor_rollout_ref.rollout"
TP, DP = f"{ROLLOUT}.tensor_model_parallel_size", f"{ROLLOUT}.data_parallel_size"
PP, EP = f"{ROLLOUT}.pipeline_model_parallel_size", f"{ROLLOUT}.expert_parallel_size"
GPUS, NODES = "trainer.n_gpus_per_node", "trainer.nnodes"
PATH = "actor_rollout_ref.model.path"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


def test_default_of_two_on_one_gpu(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL201", problems_of(f"{GPUS}=1"))
    assert (found.severity, found.path, found.line) == ("error", GPUS, FIRST)
    assert f"takes 2 GPUs ({TP}=2 (verl's default)), but there is 1" in found.message
    assert found.suggestion == f"set {TP} to 1"
    assert found.fix is not None
    assert (found.fix.action, found.fix.key, found.fix.to) == ("set", TP, 1)


@pytest.mark.parametrize(
    ("overrides", "numbers", "advice"),
    [
        ((f"{TP}=3",), "which does not divide 8", "to 1, 2 or 4"),
        ((f"{TP}=4", f"{DP}=4"), "takes 16 GPUs (4 tensor × 4 data × 1 pipeline parallel), but there are 8", "1 or 2"),
        ((f"{TP}=4", f"{NODES}=3", f"{GPUS}=6"), "takes 4 GPUs", "to 1 or 2"),
        ((f"{DP}=3",), "takes 6 GPUs", f"lower {DP}"),
    ],
)
def test_engines_that_leave_a_rest(
    problems_of: ProblemsOf, overrides: tuple[str, ...], numbers: str, advice: str
) -> None:
    (found,) = of("VRL201", problems_of(*overrides))
    assert (found.severity, found.line) == ("error", FIRST)
    assert numbers in found.message
    assert advice in (found.suggestion or "")
    assert found.fix is None


def test_sizes_divide_the_heads_too_when_the_model_is_known(problems_of: ProblemsOf) -> None:
    for overrides, good in [((f"{TP}=3",), "1, 2 or 4"), ((f"{GPUS}=7",), "1")]:
        (found,) = of("VRL201", problems_of(*overrides))
        assert found.suggestion == f"set {TP} to {good}"
    (found,) = of("VRL201", problems_of(f"{TP}=3", f"{PATH}=me/mine"))
    assert found.suggestion == f"set {TP} to 1, 2, 4 or 8"


def test_sizes_hold_the_weights_when_the_cluster_is_known(problems_of: ProblemsOf) -> None:
    large = (f"{TP}=3", f"{PATH}=Qwen/Qwen2.5-72B-Instruct", f"{NODES}=4")
    (found,) = of("VRL201", problems_of(*large, cluster="4x8xA100-80G,cpus=96,ram=2T"))
    assert found.suggestion == f"set {TP} to 4, 8, 16 or 32"


def test_one_size_that_is_wrong_twice_is_reported_once(problems_of: ProblemsOf) -> None:
    found = problems_of(f"{TP}=16")  # neither divides 8 GPUs nor 28 heads
    assert [problem.code for problem in found if problem.severity == "error"] == ["VRL201"]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_engines_that_fill_the_gpus(problems_of: ProblemsOf, size: int) -> None:
    assert of("VRL201", problems_of(f"{TP}={size}")) == []


def test_engines_apart_only_leave_gpus_idle(problems_of: ProblemsOf) -> None:
    overrides = ("rollout.nnodes=1", "rollout.n_gpus_per_node=7", f"{TP}=2", f"{GPUS}=1")
    (found,) = of("VRL201", problems_of(*overrides, entry="fully_async"))
    assert (found.severity, found.line) == ("warning", FIRST + 2)
    assert "which does not divide 7: 1 stay idle" in found.message


def test_versions_without_data_parallel_engines(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL201", problems_of(f"{TP}=3", version="0.5.0"))
    assert found.line == FIRST


@pytest.mark.parametrize(
    ("overrides", "numbers", "advice"),
    [
        ((f"{TP}=4", f"{NODES}=2", f"{GPUS}=6"), "of 4 GPUs does not fit onto nodes of 6", "to 1 or 2"),
        ((f"{TP}=12", f"{NODES}=3"), "of 12 GPUs does not fit onto nodes of 8", "to 1, 2 or 4"),
        ((f"{TP}=3", f"{DP}=4", f"{NODES}=6", f"{GPUS}=4"), "nodes of 4 GPUs do not hold", "to 1 or 2"),
    ],
)
def test_engines_across_nodes(problems_of: ProblemsOf, overrides: tuple[str, ...], numbers: str, advice: str) -> None:
    (found,) = of("VRL202", problems_of(*overrides))
    assert (found.severity, found.line) == ("error", FIRST)
    assert numbers in found.message
    assert advice in (found.suggestion or "")


def test_whole_nodes_are_only_slow(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL202", problems_of(f"{TP}=16", f"{NODES}=4"))
    assert (found.severity, found.line) == ("note", FIRST)
    assert "spans 2 nodes" in found.message


@pytest.mark.parametrize(
    "overrides",
    [(f"{TP}=8", f"{NODES}=4"), (f"{TP}=3", f"{GPUS}=6", f"{NODES}=2"), (f"{TP}=4", f"{DP}=4", f"{NODES}=2")],
)
def test_engines_on_nodes(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL202", problems_of(*overrides)) == []


def test_experts_take_all_ranks(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL202", problems_of(f"{EP}=2", f"{TP}=1"))
    assert (found.severity, found.line) == ("error", FIRST)
    assert f"{EP}=2 has to equal 1 tensor × 1 data = 1" in found.message
    assert of("VRL202", problems_of(f"{EP}=4", f"{TP}=2", f"{DP}=2")) == []
    assert of("VRL202", problems_of(f"{EP}=2", f"{TP}=1", f"{ROLLOUT}.name=trtllm")) == []


def test_no_pipeline_in_the_rollout(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL202", problems_of(f"{PP}=2"))
    assert (found.severity, found.line) == ("error", FIRST)
    assert "does not run pipeline parallelism in vllm" in found.message
    assert found.fix is None  # what is to hold the model instead, its user has to say


def test_heads_over_ranks(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL203", problems_of(f"{TP}=8"))  # 28 heads, 4 key-value heads
    assert (found.severity, found.path, found.line) == ("error", TP, FIRST)
    assert "does not divide the model's 28 attention heads (4 key-value heads)" in found.message
    assert found.suggestion == "set it to 1, 2 or 4"


def test_key_value_heads_are_copied_whole(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL203", problems_of(f"{TP}=7", f"{GPUS}=7"))
    assert found.suggestion == "set it to 1"
    assert of("VRL203", problems_of(f"{TP}=28", f"{GPUS}=28")) == []


@pytest.mark.parametrize("overrides", [(f"{TP}=4",), (f"{TP}=1",), (f"{TP}=8", f"{ROLLOUT}.name=hf")])
def test_heads_that_fit(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL203", problems_of(*overrides)) == []


def test_heads_of_a_model_elsewhere(problems_of: ProblemsOf) -> None:
    (message,) = unchecked("VRL203", problems_of(f"{PATH}=/models/own-7b"))
    assert "needs the config.json of /models/own-7b" in message
    assert unchecked("VRL203", problems_of(f"{PATH}=/models/own-7b", f"{TP}=1")) == []


SEPARATE = (
    "trainer.v1.trainer_mode=separate_async",
    f"{ROLLOUT}.nnodes=1",
    f"{ROLLOUT}.n_gpus_per_node=4",
    f"{TP}=4",
)


def test_engines_beside_the_trainer_fill_both_pools(problems_of: ProblemsOf) -> None:
    assert of("VRL201", problems_of(*SEPARATE)) == []
    (found,) = of("VRL201", problems_of(*SEPARATE, f"{GPUS}=6"))
    assert (found.severity, found.path, found.line) == ("error", TP, FIRST + 3)
    assert "which does not divide 6" in found.message
    assert found.suggestion == f"set {TP} to 1 or 2"


def test_only_own_gpus_are_filled_without_the_hybrid_engine(problems_of: ProblemsOf) -> None:
    overrides = (*SEPARATE, f"{GPUS}=6", "actor_rollout_ref.hybrid_engine=False")
    assert of("VRL201", problems_of(*overrides)) == []
    # 0.9.0 does not look at it.
    assert [found.severity for found in of("VRL201", problems_of(*overrides, version="0.9.0"))] == ["error"]


def test_nodes_of_engines_of_their_own(problems_of: ProblemsOf) -> None:
    apart = (*SEPARATE[:1], f"{ROLLOUT}.nnodes=4", f"{ROLLOUT}.n_gpus_per_node=6", f"{TP}=4")
    (found,) = of("VRL202", problems_of(*apart))
    assert "of 4 GPUs does not fit onto nodes of 6" in found.message
    assert of("VRL202", problems_of(*apart[:2], f"{ROLLOUT}.n_gpus_per_node=8", f"{TP}=4")) == []
