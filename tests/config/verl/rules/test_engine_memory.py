from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ROLLOUT, PATH = "actor_rollout_ref.rollout", "actor_rollout_ref.model.path"
UTIL, TP = f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.tensor_model_parallel_size"
CONTEXT = f"{ROLLOUT}.max_model_len"
OFFLOAD = tuple(f"actor_rollout_ref.actor.fsdp_config.{name}_offload=True" for name in ("param", "optimizer"))


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


@pytest.mark.parametrize("share", ["1.7", "0", "-0.5"])
def test_no_share_at_all(problems_of: ProblemsOf, share: str) -> None:
    (found,) = of("VRL214", problems_of(f"{UTIL}={share}"))
    assert (found.severity, found.path, found.line) == ("error", UTIL, FIRST)
    assert "is not between 0 and 1" in found.message
    assert "0.5 to 0.7" in (found.suggestion or "")


def test_all_of_the_gpu(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL214", problems_of(f"{UTIL}=1.0"))
    assert "leaves no memory for CUDA itself" in found.message
    assert of("VRL214", problems_of(f"{UTIL}=1.0", f"{ROLLOUT}.name=sglang")) == []


@pytest.mark.parametrize("share", ["0.05", "0.5", "0.95"])
def test_shares(problems_of: ProblemsOf, share: str) -> None:
    assert of("VRL214", problems_of(f"{UTIL}={share}")) == []


def test_weights_larger_than_the_share(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=Qwen/Qwen2.5-72B-Instruct", f"{TP}=2", "trainer.nnodes=8", *OFFLOAD)
    (found,) = of("VRL214", problems_of(*overrides, cluster="8x8xA100-80G"))
    assert (found.severity, found.path, found.line) == ("error", TP, FIRST + 1)
    assert "weights of 72.7B parameters × 2 bytes / 2 GPUs = 67.7 GiB do not fit" in found.message
    assert "0.5 × 80.0 = 40.0 GiB" in found.message
    assert of("VRL214", problems_of(*overrides, f"{TP}=8", cluster="8x8xA100-80G")) == []


@pytest.mark.parametrize("more", [f"{ROLLOUT}.quantization=fp8", f"{ROLLOUT}.name=sglang"])
def test_weights_that_are_not_plain(problems_of: ProblemsOf, more: str) -> None:
    overrides = (f"{PATH}=Qwen/Qwen2.5-72B-Instruct", f"{TP}=2", "trainer.nnodes=8", *OFFLOAD)
    assert of("VRL214", problems_of(*overrides, more, cluster="8x8xA100-80G")) == []


def test_experts_spread_over_data_ranks(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=Qwen/Qwen3-235B-A22B", f"{TP}=4", "trainer.nnodes=32", *OFFLOAD)
    cluster = "32x8xA100-80G"
    assert [found.path for found in of("VRL214", problems_of(*overrides, cluster=cluster))] == [TP]
    assert of("VRL214", problems_of(*overrides, f"{ROLLOUT}.data_parallel_size=4", cluster=cluster)) == []


def test_a_cache_without_room_for_one_sequence(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=meta-llama/Llama-3.1-8B-Instruct", f"{CONTEXT}=null", f"{TP}=1", f"{UTIL}=0.6")
    (found,) = of("VRL211", problems_of(*overrides, cluster="8xA100-40G"))
    assert (found.severity, found.path, found.line) == ("error", CONTEXT, FIRST + 1)
    # 2 × 32 layers × 8 heads × 128 × 2 bytes × 131072 tokens
    assert "one sequence of 131072 tokens takes 16.0 GiB of cache a GPU, and 9.0 GiB are left" in found.message
    assert found.suggestion == f"set {CONTEXT}=1024 (prompt plus response), or raise {UTIL}"


@pytest.mark.parametrize(
    "more",
    [
        (f"{CONTEXT}=8192",),
        (f"{UTIL}=0.9",),
        (f"{TP}=2",),
        ("+actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_dtype=fp8",),
        (f"{PATH}=google/gemma-2-9b-it",),
    ],
)
def test_caches_that_may_do(problems_of: ProblemsOf, more: tuple[str, ...]) -> None:
    overrides = (f"{PATH}=meta-llama/Llama-3.1-8B-Instruct", f"{CONTEXT}=null", f"{TP}=1", f"{UTIL}=0.6")
    assert of("VRL211", problems_of(*overrides, *more, cluster="8xA100-40G")) == []


def test_what_has_to_be_known(problems_of: ProblemsOf) -> None:
    assert any("needs the cluster" in message for message in unchecked("VRL214", problems_of()))
    assert any("needs the cluster" in message for message in unchecked("VRL211", problems_of()))
