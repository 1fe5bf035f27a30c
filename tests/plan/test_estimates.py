"""Estimates through the whole planner: what they lack, what does not fit, constants that the engine has too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from verlcli.config import Loaded
from verlcli.facts import parse_cluster, shape_from_config
from verlcli.plan import Plan, machine_of, make_plan

QWEN = "model.path=Qwen/Qwen2.5-0.5B"
SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


@pytest.fixture
def plan(load: Callable[..., Loaded]) -> Callable[..., Plan]:
    def planned(*overrides: str, cluster: str = "1xH100") -> Plan:
        loaded = load("data.source=arithmetic", *overrides)
        config = loaded.require()
        machine = machine_of(parse_cluster(cluster))
        return make_plan(config, name="x", machine=machine, argv=["x"], origins=loaded.origins)

    return planned


def model_folder(folder: Path, **changes: Any) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SMALL | changes))
    return str(folder)


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({"sliding_window": 128}, "transformers generates"),
        ({"rope_scaling": {"type": "longrope", "factor": 4.0}}, "transformers generates"),
        ({"model_type": "starcoder2"}, "a model has layers"),
        ({"rope_scaling": {"type": "linear", "factor": 10**400}}, "no config.json"),
    ],
)
def test_models_that_run_another_way_are_not_estimated(
    plan: Callable[..., Plan], tmp_path: Path, changes: dict[str, Any], lacks: str
) -> None:
    path = model_folder(tmp_path / "model", **changes)
    found = plan(f"model.path={path}", "data.max_response_length=256", "data.max_prompt_length=64")
    assert found.memory is None
    assert lacks in str(found.missing)
    assert plan(f"model.path={model_folder(tmp_path / 'plain')}", "data.max_response_length=256").memory is not None


def test_a_critic_of_an_unknown_family_stops_nothing(plan: Callable[..., Plan], tmp_path: Path) -> None:
    path = model_folder(tmp_path / "critic", model_type="starcoder2")
    assert plan(QWEN, "algorithm.name=ppo", f"critic.path={path}").memory is None


def test_old_cards_are_not_estimated(plan: Callable[..., Plan]) -> None:
    found = plan(QWEN, cluster="1xT4")
    assert (found.memory, found.time) == (None, None)
    assert "slower paths" in str(found.missing)


def test_an_inline_shape_is_every_roles_shape(plan: Callable[..., Plan]) -> None:
    shape = json.dumps(SMALL)
    found = plan("model.path=null", f"model.shape={shape}", "algorithm.name=ppo", "algorithm.kl_coef=0.1")
    assert found.memory is not None
    assert {part.role for part in found.memory.phases[0].parts} == {"actor", "critic", "reference"}


def test_a_share_too_small_for_one_sequence_does_not_fit(plan: Callable[..., Plan]) -> None:
    lengths = ("data.max_prompt_length=1024", "data.max_response_length=15000", "model.lora_rank=8")
    few = ("data.train_batch_size=4", "training.recompute=full", "training.max_token_len_per_gpu=16384")
    model = "model.path=Qwen/Qwen2.5-1.5B"
    found = plan(model, *lengths, *few, "rollout.gpu_memory_utilization=0.01")
    assert found.memory is not None
    assert found.memory.fits is False
    assert "one sequence of 16024 tokens" in found.memory.refused
    assert any("does not fit: one sequence" in note.message for note in found.notes)
    enough = plan(model, *lengths, *few, "rollout.gpu_memory_utilization=0.5")
    assert enough.memory is not None
    assert enough.memory.fits
    assert enough.memory.rows == 32


def test_transformers_reads_all_prompts_at_once(plan: Callable[..., Plan]) -> None:
    overrides = (QWEN, "data.max_prompt_length=2048", "data.max_response_length=64", "data.train_batch_size=256")

    def rollout(*more: str) -> int:
        memory = plan(*overrides, *more).memory
        assert memory is not None
        return next(phase.bytes for phase in memory.phases if phase.phase == "rollout")

    assert rollout("rollout.name=hf") > 4 * rollout("rollout.name=hf", "rollout.batch_size=64")


def test_keys_that_are_set_already_are_not_advised(plan: Callable[..., Plan]) -> None:
    memory = plan(QWEN, "training.recompute=full", "actor.optim.master_dtype=bf16", "model.lora_rank=8").memory
    assert memory is not None
    advised = {key for phase in memory.phases for part in phase.parts for key in part.shrunk_by}
    assert advised.isdisjoint({"training.recompute", "actor.optim.master_dtype", "model.lora_rank"})
    assert "training.max_token_len_per_gpu" in advised


def test_the_planner_and_the_engine_have_the_same_constants() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    from verlcli.engine.rewards import model as rewards
    from verlcli.engine.rollout.graph import pool
    from verlcli.engine.training import linear_logprob
    from verlcli.plan.memory import head, make, rollout

    assert (rollout.MOST_ROWS, rollout.HEADROOM, rollout.PREFILL_TOKENS) == (
        pool.MOST_ROWS,
        pool.HEADROOM,
        pool.PREFILL_TOKENS,
    )
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**SMALL))
    shape = shape_from_config(SMALL, "test")
    cache = pool.Pool(model, memory_fraction=0.5, host_share=0.0)
    assert cache._pass_bytes == 4 * rollout.prefill_numbers(shape)
    assert cache.bytes_per_token == 4 * shape.kv_numbers_per_token
    assert make.REWARD_TOKENS == rewards.BATCH_TOKENS
    assert head.KEPT_SHARE == linear_logprob.KEPT_SHARE
    for saving in (False, True):
        capacity = 80 * 2**30
        chunk, kept = head.chunk_and_kept(saving=saving, gpu_bytes=capacity)
        assert chunk == linear_logprob.CHUNK_BYTES // (2 if saving else 1)
        assert kept == (0 if saving else int(capacity * linear_logprob.KEPT_SHARE))


def test_advice_names_the_key_that_decides(plan: Callable[..., Plan]) -> None:
    memory = plan(QWEN, "training.ppo_micro_batch_size_per_gpu=8", "training.use_dynamic_bsz=false").memory
    assert memory is not None
    advised = {key for phase in memory.phases for part in phase.parts for key in part.shrunk_by}
    assert "training.ppo_micro_batch_size_per_gpu" in advised
    assert "training.max_token_len_per_gpu" not in advised


def test_several_ranks_are_not_estimated_as_if_they_ran(plan: Callable[..., Plan]) -> None:
    assert "the plan has 2" in str(plan(QWEN, "distributed.gpus_per_node=2", cluster="2xH100").missing)


@pytest.mark.parametrize(
    "key", ["data.max_response_length", "data.train_batch_size", "data.max_prompt_length", "rollout.n"]
)
def test_huge_numbers_are_planned_in_no_time(plan: Callable[..., Plan], key: str) -> None:
    for number in ("10000000000", "1e308"):
        found = plan(QWEN, f"{key}={number}")
        assert found.memory is None or not found.memory.fits
