"""Every configuration of the source document loads as it is written there."""

from __future__ import annotations

from typing import Any

import pytest

# Each snippet, and what its keys become.
SNIPPETS: dict[str, tuple[str, dict[str, Any]]] = {
    "hybrid flow": (
        "rollout: {num_workers: 4, buffer_size: 1024, batch_size_per_worker: 32, use_async_rollout: true}\n",
        {
            "rollout.num_workers": 4,
            "rollout.buffer_size": 1024,
            "rollout.batch_size_per_worker": 32,
            "rollout.use_async_rollout": True,
        },
    ),
    "engines": (
        "actor: {rollout_engine: vllm}\ncritic: {training_engine: mcore}\nreward_model: {engine: hf}\n",
        {"actor.rollout_engine": "vllm", "critic.training_engine": "mcore", "reward_model.engine": "hf"},
    ),
    "7b single node": (
        """
        model: {path: meta-llama/Llama-2-7b-chat-hf, lora_rank: 64, enable_gradient_checkpointing: true}
        rollout: {name: vllm, tensor_model_parallel_size: 2, max_num_batched_tokens: 16384, gpu_memory_utilization: 0.9}
        training:
          ppo_mini_batch_size: 512
          ppo_micro_batch_size_per_gpu: 64
          use_dynamic_bsz: true
          fsdp_config: {param_offload: false, mixed_precision: bf16}
        """,
        {
            "model.path": "meta-llama/Llama-2-7b-chat-hf",
            "model.lora_rank": 64,
            "rollout.tensor_model_parallel_size": 2,
            "training.ppo_mini_batch_size": 512,
            "rollout.gpu_memory_utilization": 0.9,
            "training.ppo_micro_batch_size_per_gpu": 64,
            "training.fsdp_config.mixed_precision": "bf16",
        },
    ),
    "70b cluster": (
        """
        actor_rollout_ref: {ulysses_sequence_parallel_size: 4, fsdp_wrap_policy: TRANSFORMER_BASED_WRAP}
        critic: {ulysses_sequence_parallel_size: 4, use_flash_attention: true}
        reward_model: {dtype: fp16}
        distributed: {backend: nccl, timeout: 1800, skip_grad_sync: true}   # skip: no gradient sync inside accumulation
        """,
        {
            "actor.ulysses_sequence_parallel_size": 4,
            "reference.ulysses_sequence_parallel_size": 4,
            "actor.fsdp_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "critic.use_flash_attention": True,
            "reward_model.dtype": "fp16",
            "distributed.timeout": 1800,
        },
    ),
    "cpu gpu hybrid": (
        """
        rollout: {name: vllm, cpu_offload: true, cpu_offload_ratio: 0.3}    # share of the KV cache held in host memory
        data: {num_dataloader_workers: 12, pin_memory: true}
        model: {enable_gradient_checkpointing: true, use_recompute: true}
        """,
        {"rollout.cpu_offload_ratio": 0.3, "data.num_dataloader_workers": 12, "model.use_recompute": True},
    ),
    "placement": (
        """
        actor: {device_map: "cuda:0,cuda:1"}
        critic: {device_map: "cuda:2,cuda:3"}
        reward_model: {device_map: "cuda:4"}
        """,
        {
            "actor.device_map": "cuda:0,cuda:1",
            "critic.device_map": "cuda:2,cuda:3",
            "reward_model.device_map": "cuda:4",
        },
    ),
    "loader": (
        'data: {prefetch_factor: 4, num_dataloader_workers: "min(32, cpu_cores)"}\n',
        {"data.prefetch_factor": 4, "data.num_dataloader_workers": "min(32, cpu_cores)"},
    ),
    "top-level fsdp_config": (
        "fsdp_config: {mixed_precision: fp16}\n",
        {"training.fsdp_config.mixed_precision": "fp16"},
    ),
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_snippet_loads_as_written(load: Any, name: str) -> None:
    text, expected = SNIPPETS[name]
    loaded = load(text)
    # A snippet is a part: it need not name a model and data.
    assert [problem for problem in loaded.problems if problem.code != "VRL005"] == []
    assert {key: loaded.origins[key][-1].value for key in expected} == expected
    assert expected.keys() <= loaded.set_by_user


def test_keys_of_its_search_space_are_overrides(load: Any) -> None:
    space = {"rollout.batch_size": 32, "training.ppo_mini_batch_size": 64, "fsdp_config.mixed_precision": "fp16"}
    loaded = load("backend: local\n", *(f"{key}={value}" for key, value in space.items()))
    assert loaded.values["training"]["fsdp_config"]["mixed_precision"] == "fp16"
    assert [problem for problem in loaded.problems if problem.code != "VRL005"] == []
