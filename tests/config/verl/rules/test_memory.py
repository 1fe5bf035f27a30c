from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
FSDP, PATH = f"{ACTOR}.fsdp_config", "actor_rollout_ref.model.path"
PARAM, OPTIMIZER = f"{FSDP}.param_offload", f"{FSDP}.optimizer_offload"
UTIL, LORA = f"{ROLLOUT}.gpu_memory_utilization", "actor_rollout_ref.model.lora_rank=32"
BIG = f"{PATH}=Qwen/Qwen2.5-32B-Instruct"
ON_CPU = (f"{ACTOR}.strategy=fsdp2", f"{FSDP}.offload_policy=True")
CLUSTER = "8xA100-80G,cpus=96,ram=1T"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


def test_states_larger_than_a_gpu(problems_of: ProblemsOf) -> None:
    overrides = ("trainer.n_gpus_per_node=4", BIG)
    (found,) = of("VRL214", problems_of(*overrides, cluster="4xA100-80G"))
    assert (found.severity, found.path, found.line) == ("error", "trainer.n_gpus_per_node", FIRST)
    assert "32.8B parameters × 16 bytes / 4 GPUs = 122.1 GiB of training state" in found.message
    assert "LoRA" in (found.suggestion or "")


@pytest.mark.parametrize(
    ("overrides", "cluster"),
    [
        ((BIG, f"{PARAM}=True", f"{OPTIMIZER}=True"), CLUSTER),  # 61 GiB
        ((BIG, LORA), CLUSTER),
        ((BIG, *ON_CPU, "trainer.n_gpus_per_node=4"), "4xA100-80G"),
        ((f"{ROLLOUT}.tensor_model_parallel_size=4",), "8xRTX4090"),
    ],
)
def test_states_that_fit(problems_of: ProblemsOf, overrides: tuple[str, ...], cluster: str) -> None:
    assert [found.message for found in of("VRL214", problems_of(*overrides, cluster=cluster))] == []


def test_states_that_fit_a_bare_gpu_only(problems_of: ProblemsOf) -> None:
    overrides = ("trainer.n_gpus_per_node=3", f"{PARAM}=True", f"{OPTIMIZER}=True")
    (found,) = of("VRL214", problems_of(*overrides, cluster="3xA100-40G"))
    assert (found.severity, found.line) == ("warning", FIRST)
    assert "= 37.8 GiB of training state a GPU of 40.0 GiB, and about 5 GiB stay with CUDA" in found.message


def test_copies_in_groups(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL214", problems_of(f"{PATH}=Qwen/Qwen2.5-14B", f"{FSDP}.fsdp_size=2", cluster=CLUSTER))
    assert "/ 2 GPUs = 110.0 GiB" in found.message


def test_bf16_halves_it(problems_of: ProblemsOf) -> None:
    overrides = (BIG, "trainer.n_gpus_per_node=4", f"{ROLLOUT}.tensor_model_parallel_size=4")
    (found,) = of("VRL214", problems_of(*overrides, f"{FSDP}.model_dtype=bf16", cluster="4xA100-40G"))
    assert "32.8B parameters × 8 bytes / 4 GPUs = 61.0 GiB" in found.message


def test_states_beside_the_engine(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL214", problems_of(f"{PATH}=Qwen/Qwen2.5-14B", f"{UTIL}=0.9", cluster=CLUSTER))
    assert (found.severity, found.path, found.line) == ("warning", UTIL, FIRST + 1)
    assert "training leaves 20.6 GiB on the GPU while the engine claims 0.9 × 80.0 = 72.0 GiB" in found.message
    assert found.suggestion == f"set {PARAM}=True and {OPTIMIZER}=True, or {UTIL} to 0.67 or less"


@pytest.mark.parametrize(
    "overrides",
    [
        (f"{UTIL}=0.9", f"{PARAM}=True", f"{OPTIMIZER}=True"),
        (f"{UTIL}=0.6",),
        (f"{UTIL}=0.9", *ON_CPU),
        (f"{UTIL}=0.9", f"{ROLLOUT}.name=sglang"),
    ],
)
def test_states_out_of_the_engines_way(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL214", problems_of(f"{PATH}=Qwen/Qwen2.5-14B", *overrides, cluster=CLUSTER)) == []


def test_engines_on_other_gpus(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=Qwen/Qwen2.5-14B", f"{UTIL}=0.9")
    assert of("VRL214", problems_of(*overrides, entry="one_step_off", cluster="2x8xA100-80G")) == []


def test_a_host_that_is_too_small(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=Qwen/Qwen2.5-72B-Instruct", "trainer.nnodes=4", f"{PARAM}=True", f"{OPTIMIZER}=True")
    (found,) = of("VRL220", problems_of(*overrides, cluster="4x8xH100,ram=128G"))
    assert (found.severity, found.path, found.line) == ("error", PARAM, FIRST + 2)
    assert found.message == "offloaded state of 72.7B parameters takes 203 GiB of a node's 128 GiB"


def test_a_host_without_room_to_load(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=Qwen/Qwen2.5-72B-Instruct", "trainer.nnodes=4", f"{OPTIMIZER}=True")
    (found,) = of("VRL220", problems_of(*overrides, cluster="4x8xH100,ram=400G"))
    assert found.severity == "warning"
    assert "takes 135 GiB of a node's 400 GiB, and 271 GiB more while the model is loaded" in found.message


def test_a_reference_lives_on_the_host(problems_of: ProblemsOf) -> None:
    kl = f"{ACTOR}.use_kl_loss=True"
    (found,) = of("VRL220", problems_of(kl, cluster="8xA100-80G,ram=40G"))
    assert "takes 28 GiB of a node's 40 GiB" in found.message
    assert of("VRL220", problems_of(kl, LORA, cluster="8xA100-80G,ram=40G")) == []


def test_fsdp2_keeps_all_of_it_there(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL220", problems_of(*ON_CPU, cluster="8xA100-80G,ram=100G"))
    assert "takes 113 GiB of a node's 100 GiB" in found.message


def test_a_host_that_does(problems_of: ProblemsOf) -> None:
    assert of("VRL220", problems_of(f"{PARAM}=True", f"{OPTIMIZER}=True", cluster=CLUSTER)) == []
    assert of("VRL220", problems_of(cluster="8xA100-80G,ram=1G")) == []


def test_what_has_to_be_known(problems_of: ProblemsOf) -> None:
    offload = f"{PARAM}=True"
    assert "the cluster" in unchecked("VRL220", problems_of(offload))[0]
    assert "add ram=512G to --cluster" in unchecked("VRL220", problems_of(offload, cluster="8xA100-80G"))[0]
    assert unchecked("VRL220", problems_of()) == []
    elsewhere = f"{PATH}=/models/own-7b"
    assert "config.json of /models/own-7b" in unchecked("VRL214", problems_of(elsewhere, cluster=CLUSTER))[0]
    assert of("VRL214", problems_of(cluster="none")) == []
