"""Launches that verl 0.9.1 starts, or refuses with a traceback, though they are wrong; its defaults fill the rest."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
A = "actor_rollout_ref"
NAMED = ("algorithm.adv_estimator=grpo", f"{A}.rollout.name=vllm")
BASE = (
    *NAMED,
    f"{A}.actor.ppo_micro_batch_size_per_gpu=4",
    f"{A}.rollout.log_prob_micro_batch_size_per_gpu=4",
    f"{A}.ref.log_prob_micro_batch_size_per_gpu=4",
)
DYNAMIC = (*NAMED, f"{A}.actor.use_dynamic_bsz=True")
MINE = {f"VRL{number}" for number in range(201, 224)}


def found_in(problems: list[Problem]) -> set[tuple[str, str]]:
    """Codes and severities of these rules, without what was not checked."""
    known = (problem for problem in problems if not problem.message.startswith(NOT_CHECKED))
    return {(problem.code, problem.severity) for problem in known if problem.code in MINE}


@pytest.mark.parametrize("overrides", [BASE, DYNAMIC])
def test_the_base_of_them_is_sound(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert found_in(problems_of(*overrides, bare=True)) == set()


@pytest.mark.parametrize(
    ("base", "override", "code", "severity"),
    [
        (NAMED, "", "VRL210", "error"),
        (BASE, "trainer.n_gpus_per_node=1", "VRL201", "error"),
        (BASE, f"{A}.rollout.tensor_model_parallel_size=3", "VRL201", "error"),
        (BASE, "data.train_batch_size=100 actor_rollout_ref.actor.ppo_mini_batch_size=50", "VRL206", "error"),
        (DYNAMIC, "data.train_batch_size=100 actor_rollout_ref.actor.ppo_mini_batch_size=50", "VRL206", "error"),
        (BASE, f"{A}.actor.ppo_mini_batch_size=6", "VRL206", "error"),
        (BASE, f"{A}.actor.ppo_mini_batch_size=12 {A}.actor.ppo_micro_batch_size_per_gpu=1", "VRL206", "error"),
        (BASE, f"{A}.actor.ppo_mini_batch_size=16", "VRL206", "error"),
        (BASE, "data.train_batch_size=64", "VRL207", "error"),
        (DYNAMIC, "data.train_batch_size=64", "VRL207", "warning"),
        (BASE, "data.train_batch_size=0", "VRL207", "error"),
        (DYNAMIC, f"data.max_response_length=3584 {A}.actor.ppo_max_token_len_per_gpu=1024", "VRL208", "error"),
        (DYNAMIC, f"{A}.rollout.log_prob_use_dynamic_bsz=False", "VRL209", "error"),
        (BASE, f"{A}.actor.ppo_micro_batch_size=8", "VRL210", "error"),
        (BASE, f"{A}.rollout.log_prob_micro_batch_size=8", "VRL210", "error"),
        (BASE, f"{A}.rollout.max_model_len=512", "VRL211", "error"),
        (
            BASE,
            f"{A}.rollout.enable_chunked_prefill=False {A}.rollout.max_model_len=32768"
            f" {A}.rollout.max_num_batched_tokens=4096",
            "VRL212",
            "warning",
        ),
        (BASE, f"{A}.actor.fsdp_config.ulysses_sequence_parallel_size=3", "VRL204", "error"),
        (BASE, f"{A}.actor.ulysses_sequence_parallel_size=2 {A}.model.use_remove_padding=False", "VRL205", "error"),
        (
            BASE,
            f"{A}.actor.fsdp_config.ulysses_sequence_parallel_size=2 {A}.model.use_remove_padding=False",
            "VRL205",
            "error",
        ),
        (BASE, f"{A}.rollout.gpu_memory_utilization=1.7", "VRL214", "error"),
        (BASE, f"{A}.model.lora_rank=32 {A}.rollout.layered_summon=True", "VRL215", "error"),
        (BASE, f"{A}.model.lora.rank=32", "VRL216", "error"),
        (BASE, f"{A}.model.lora_rank=1024", "VRL217", "error"),
        (BASE, f"{A}.actor.fsdp_config.offload_policy=True", "VRL218", "warning"),
        (
            BASE,
            f"{A}.actor.strategy=fsdp2 {A}.actor.fsdp_config.offload_policy=True"
            f" {A}.actor.fsdp_config.param_offload=True",
            "VRL218",
            "note",
        ),
        (BASE, f"{A}.rollout.expert_parallel_size=2 {A}.rollout.tensor_model_parallel_size=1", "VRL202", "error"),
        (BASE, f"{A}.rollout.pipeline_model_parallel_size=2", "VRL202", "error"),
    ],
)
def test_what_is_wrong_is_said(
    problems_of: ProblemsOf, base: tuple[str, ...], override: str, code: str, severity: str
) -> None:
    assert (code, severity) in found_in(problems_of(*base, *override.split(), bare=True))


@pytest.mark.parametrize("base", [BASE, DYNAMIC])
@pytest.mark.parametrize(
    ("override", "code"),
    [(f"{A}.actor.megatron.tensor_model_parallel_size=3", "VRL204"), (f"{A}.model.lora_rank=32", "VRL216")],
)
def test_what_is_wrong_with_megatron(problems_of: ProblemsOf, base: tuple[str, ...], override: str, code: str) -> None:
    assert (code, "error") in found_in(problems_of(*base, override, bare=True, engine="megatron"))


@pytest.mark.parametrize("value", ["0", "-1", "null", "eight", "1000000000000", "[8]", "true"])
@pytest.mark.parametrize(
    "key",
    [
        "trainer.n_gpus_per_node",
        "data.train_batch_size",
        f"{A}.rollout.n",
        f"{A}.rollout.tensor_model_parallel_size",
        f"{A}.actor.ppo_mini_batch_size",
        f"{A}.actor.ppo_micro_batch_size_per_gpu",
        f"{A}.rollout.max_model_len",
        f"{A}.actor.fsdp_config.ulysses_sequence_parallel_size",
    ],
)
def test_nonsense_is_left_to_the_checks_of_single_keys(problems_of: ProblemsOf, key: str, value: str) -> None:
    found = problems_of(*BASE, f"{key}={value}", bare=True)
    assert [
        problem.sentence for problem in found if re.search(r"(to|=) ?(0|-\d+)( |,|$)", problem.suggestion or "")
    ] == []
