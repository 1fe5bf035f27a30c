"""The phases of a whole step: which models are there, what decides, and settings at their edges."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from verlcli.config import Loaded
from verlcli.facts import ModelShape, find_gpu, model_shape
from verlcli.plan import Gpu, Machine, Plan
from verlcli.plan.memory import DeviceMemory, Part, plan_memory
from verlcli.plan.memory.types import PHASES

Memory = Callable[..., DeviceMemory]
GIB = 2**30
SMALL, LARGE = "Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B"
H100 = Machine((Gpu("NVIDIA H100 80GB HBM3", 81559 * 2**20, (9, 0)),), cpu_cores=8, cpu_bf16=False, torch_cuda=True)


def shape_of(name: str) -> ModelShape:
    shape = model_shape(name)
    assert shape is not None
    return shape


@pytest.fixture
def memory(load: Callable[..., Loaded], plan_of: Callable[..., Plan]) -> Memory:
    """`memory("rollout.n=4", ..., model=SMALL, gpu="H100")`; gpu None: on a CPU; "": on a GPU that nobody knows."""

    def make(*overrides: str, model: str = SMALL, gpu: str | None = "H100") -> DeviceMemory:
        machine = H100 if gpu is not None else Machine((), cpu_cores=8, cpu_bf16=False, torch_cuda=False)
        shapes = dict.fromkeys(("actor", "critic", "reference", "reward_model"), shape_of(model))
        known = find_gpu(gpu) if gpu else None
        found = plan_memory(load(*overrides).config, plan_of(machine, *overrides), shapes, gpu=known)
        assert found is not None
        return found

    return make


def parts(memory: DeviceMemory, phase: str, component: str | None = None, role: str | None = None) -> list[Part]:
    of_phase = next(each for each in memory.phases if each.phase == phase)
    return [p for p in of_phase.parts if component in (None, p.component) and role in (None, p.role)]


def size(*args: Any) -> int:
    return sum(part.bytes for part in parts(*args))


def test_a_bf16_model_takes_18_bytes_a_parameter(memory: Memory) -> None:
    params = shape_of(SMALL).params
    assert params is not None
    found = memory("algorithm.kl_coef=0")
    assert size(found, "optimizer", "weights") == 2 * params
    assert size(found, "optimizer", "optimizer") == 12 * params
    assert size(found, "optimizer", "gradients") == 4 * params
    assert size(found, "load") == 6 * params  # moments come with the first update
    pure = memory("algorithm.kl_coef=0", "actor.optim.master_dtype=bf16")
    assert size(pure, "optimizer", "weights") + size(pure, "optimizer", "optimizer") == 6 * params


def test_phases_are_those_of_the_step_in_their_order(memory: Memory) -> None:
    names = [phase.phase for phase in memory("algorithm.kl_coef=0").phases]
    assert names == ["load", "rollout", "forward", "backward", "optimizer", "save"]
    names = [phase.phase for phase in memory("algorithm.name=ppo").phases]
    assert names == list(PHASES)


def test_roles_share_the_device_and_take_turns(memory: Memory) -> None:
    alone, ppo = memory("algorithm.kl_coef=0"), memory("algorithm.kl_coef=0", "algorithm.name=ppo")
    for phase in ("forward", "backward", "optimizer"):
        updated = {part.role for part in parts(ppo, phase) if part.component in ("activations", "gradients")}
        assert len(updated) == 1  # the other one's are gone, or have not come
    assert size(ppo, "forward", "activations") < 1.1 * size(alone, "forward", "activations")
    assert size(ppo, "forward", "optimizer", "critic") > 0


def test_lora_needs_no_second_copy_for_the_reference(memory: Memory) -> None:
    full, lora = memory("algorithm.kl_coef=0.1"), memory("algorithm.kl_coef=0.1", "model.lora_rank=8")
    assert size(full, "load", "weights", "reference") == size(full, "load", "weights", "actor")
    assert size(lora, "load", "weights", "reference") == 0
    assert size(lora, "rollout", "merged adapters") > 0
    assert parts(lora, "log-probs")  # of the actor with its adapter off


def test_a_role_on_another_device_is_left_out(memory: Memory) -> None:
    found = memory("algorithm.kl_coef=0.1", "reference.device_map=cpu")
    assert not parts(found, "load", None, "reference")


def test_compiled_layers_give_way_to_our_kernels_where_they_do_not_fit(memory: Memory) -> None:
    overrides = ("algorithm.kl_coef=0", "training.max_token_len_per_gpu=81920", "data.train_batch_size=512")
    large, small = memory(*overrides, gpu="H200"), memory(*overrides, gpu="A100-80G")
    assert "compiled" in parts(large, "forward", "activations")[0].equation
    assert "fused" in parts(small, "forward", "activations")[0].equation
    fixed = memory(*overrides, "training.compile=true", gpu="A100-80G")
    assert fixed.worst.bytes > small.worst.bytes


def test_a_large_model_does_not_fit_and_with_lora_it_does(memory: Memory) -> None:
    assert memory("algorithm.kl_coef=0", model=LARGE).fits is False
    assert memory("algorithm.kl_coef=0", "model.lora_rank=16", "training.recompute=full", model=LARGE).fits is True
    assert memory("algorithm.kl_coef=0", model=LARGE, gpu="").fits is None


@pytest.mark.parametrize("recompute", ["none", "selective", "full", "offload"])
def test_a_sequence_longer_than_the_budget_is_alone(memory: Memory, recompute: str) -> None:
    overrides = ("data.max_prompt_length=512", "data.max_response_length=7680", f"training.recompute={recompute}")
    short, exact = (memory(*overrides, f"training.max_token_len_per_gpu={n}") for n in (64, 8192))
    assert size(short, "forward", "activations") == size(exact, "forward", "activations")


def test_a_micro_batch_is_no_larger_than_the_data(memory: Memory) -> None:
    few = ("data.train_batch_size=1", "rollout.n=2", "algorithm.kl_coef=0")
    large = memory(*few, "training.ppo_micro_batch_size_per_gpu=64")
    exact = memory(*few, "training.ppo_micro_batch_size_per_gpu=2")
    assert size(large, "forward", "activations") == size(exact, "forward", "activations")
    assert not parts(large, "forward", "gradients")  # one micro batch: gradients come in the backward pass
    assert size(memory(*few, "training.ppo_micro_batch_size_per_gpu=1"), "forward", "gradients") > 0


def test_the_cache_has_prompts_once_and_a_slot_a_row(memory: Memory) -> None:
    base = ("data.max_prompt_length=100", "data.max_response_length=50", "data.train_batch_size=4", "rollout.n=8")
    token = shape_of(SMALL).kv_numbers_per_token * 2
    assert size(memory(*base), "rollout", "kv cache") == (4 * 100 + 32 * 50 + 100) * token
    assert size(memory(*base, "rollout.batch_size=3"), "rollout", "kv cache") == (4 * 100 + 3 * 50 + 100) * token
    assert size(memory(*base, "rollout.batch_size=900"), "rollout", "kv cache") == (4 * 100 + 32 * 50 + 100) * token
    half = memory(*base, "rollout.cpu_offload=true", "rollout.cpu_offload_ratio=0.5")
    assert size(half, "rollout", "kv cache") == (4 * 100 + 32 * 50 + 100) * token // 2
    none = memory(*base, "rollout.cpu_offload=true", "rollout.cpu_offload_ratio=1")
    assert size(none, "rollout", "kv cache") == 0


def test_a_cache_that_does_not_fit_is_cut_to_what_is_left(memory: Memory) -> None:
    overrides = ("data.max_response_length=16384", "data.train_batch_size=512", "rollout.n=8")
    found = memory(*overrides, "model.lora_rank=8", "training.recompute=full", model=LARGE)
    assert found.capacity is not None
    assert size(found, "rollout") <= found.capacity
    assert size(found, "rollout", "kv cache") <= 0.5 * found.capacity  # rollout.gpu_memory_utilization
    wider = memory(
        *overrides, "model.lora_rank=8", "training.recompute=full", "rollout.gpu_memory_utilization=0.6", model=LARGE
    )
    assert size(wider, "rollout", "kv cache") > size(found, "rollout", "kv cache")


EDGES = [
    (),
    ("algorithm.name=ppo", "algorithm.kl_coef=0.1", "reward_model.path=judge"),
    ("algorithm.name=dapo",),
    ("data.max_prompt_length=1", "data.max_response_length=1", "data.train_batch_size=1", "rollout.n=2"),
    ("rollout.batch_size=1",),
    ("rollout.name=hf",),
    ("rollout.top_p=0.9",),
    ("training.max_token_len_per_gpu=1",),
    ("model.lora_rank=1", "model.lora_target_modules=[down_proj]"),
    ("model.dtype=fp16",),
    ("model.dtype=fp32",),
    ("training.recompute=offload",),
    ("data.max_response_length=131072", "data.train_batch_size=1024"),
]


@pytest.mark.parametrize("overrides", EDGES)
@pytest.mark.parametrize("gpu", ["H100", "T4", "", None])
@pytest.mark.parametrize("model", [SMALL, "Qwen/Qwen3-30B-A3B"])
def test_bytes_are_positive_whole_numbers_at_the_edges(
    memory: Memory, overrides: tuple[str, ...], gpu: str | None, model: str
) -> None:
    found = memory(*overrides, model=model, gpu=gpu)
    params = shape_of(model).params
    assert params is not None
    for phase in found.phases:
        assert phase.bytes >= 2 * params  # the actor's weights at the least
        assert len({(part.role, part.component) for part in phase.parts}) == len(phase.parts)
        for part in phase.parts:
            assert isinstance(part.bytes, int)
            assert part.bytes > 0
            assert part.equation
    assert 0 < found.outside[0] < found.outside[1]


def test_keys_that_are_said_to_lower_a_part_exist(memory: Memory) -> None:
    from verlcli.config.keys import dotted, known_keys

    known = {dotted(key) for key in known_keys()}
    found = memory("algorithm.name=ppo", "algorithm.kl_coef=0.1", "model.lora_rank=8")
    named = {key for phase in found.phases for part in phase.parts for key in part.shrunk_by}
    assert named
    assert named <= known


@pytest.mark.parametrize(
    "name", ["deepseek-ai/DeepSeek-V3", "google/gemma-2-2b", "openai/gpt-oss-20b", "Qwen/Qwen3.5-27B"]
)
def test_what_is_not_modelled_is_not_guessed(
    load: Callable[..., Loaded], plan_of: Callable[..., Plan], name: str
) -> None:
    config, plan = load("algorithm.kl_coef=0").config, plan_of(H100, "algorithm.kl_coef=0")
    assert plan_memory(config, plan, {"actor": shape_of(name)}, gpu=None) is None
    assert plan_memory(config, plan, {}, gpu=None) is None


def test_planning_memory_loads_no_torch() -> None:
    code = "import sys, verlcli.plan.memory; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
