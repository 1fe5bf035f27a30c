from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from verlcli.config import load_config
from verlcli.config.context import Context
from verlcli.config.presets import is_base, preset_names
from verlcli.config.rules._base import Verdict
from verlcli.config.rules.pitfalls import PITFALLS
from verlcli.config.types import Config
from verlcli.facts import parse_cluster

BASE = ("model.path=Qwen/Qwen2.5-7B-Instruct", "data.source=arithmetic")
VERL = (*BASE, "backend=verl")
PPO = (*BASE, "algorithm.name=ppo")


def config_of(*overrides: str) -> Config:
    return load_config([], overrides, env={}).config


def verdicts(*overrides: str, cluster: str | None = None) -> list[Verdict]:
    context = Context(parse_cluster(cluster) if cluster else None)
    config = config_of(*overrides)
    return [verdict for rule in PITFALLS for verdict in rule(config, context)]


def maps(actor: str, critic: str) -> tuple[str, str]:
    return f'actor.device_map="{actor}"', f'critic.device_map="{critic}"'


# overrides, cluster; then code, severity, keys, parts of the sentence
FIRING = [
    (
        (*PPO, *maps("cuda:0,cuda:1", "cuda:1,cuda:2")),
        None,
        ("VRL150", "warning", ("critic.device_map", "actor.device_map")),
        ["cuda:1 would hold the critic and the actor"],
    ),
    (
        (*BASE, 'actor.device_map="cuda:0,cuda:1"', 'reward_model={path: a/b, device_map: "cuda:1"}'),
        None,
        ("VRL150", "warning", ("reward_model.device_map", "actor.device_map")),
        ["the reward_model and the actor"],
    ),
    (
        (*PPO, *maps("cuda:0,cuda:1", "cuda:0,cuda:1")),
        "8xA100-80G",
        ("VRL151", "warning", ("critic.device_map", "actor.device_map")),
        ["keep 113 GiB of training states on each GPU", "has 80 GiB"],
    ),
    (
        (*VERL, "data.num_dataloader_workers=64"),
        "8xA100-80G,cpus=32",
        ("VRL152", "warning", ("data.num_dataloader_workers",)),
        ["64 loader processes on nodes with 32 cores", "min(32, cpu_cores)"],
    ),
    (
        (*VERL, "data.num_dataloader_workers=0", "data.train_batch_size=1024"),
        None,
        ("VRL152", "note", ("data.num_dataloader_workers", "data.train_batch_size")),
        ["the training process itself reads the 1024 prompts"],
    ),
    (
        (*BASE, "data.pin_memory=true", "distributed.device=cpu"),
        None,
        ("VRL154", "warning", ("data.pin_memory", "distributed.device")),
        ["distributed.device is cpu"],
    ),
    (
        (*BASE, "data.pin_memory=true"),
        "none",
        ("VRL154", "warning", ("data.pin_memory", "distributed.device")),
        ["the cluster has no GPU"],
    ),
    (
        (*BASE, "model.dtype=bf16"),
        "8xV100-32G",
        ("VRL155", "warning", ("model.dtype",)),
        ["has no bf16 units", "set fp16, or auto"],
    ),
    (
        (*VERL, "training.fsdp_config.mixed_precision=bf16"),
        "1xT4",
        ("VRL155", "warning", ("training.fsdp_config.mixed_precision",)),
        ["set fp16, or auto"],
    ),
    (
        (*VERL, "rollout.gpu_memory_utilization=0.9"),
        None,
        ("VRL157", "warning", ("rollout.gpu_memory_utilization", "training.fsdp_config.optimizer_offload")),
        ["takes 90% of each GPU", "weights and optimizer stay"],
    ),
    (
        (*VERL, "rollout.gpu_memory_utilization=0.9", "training.fsdp_config.param_offload=true"),
        None,
        ("VRL157", "warning", ("rollout.gpu_memory_utilization", "training.fsdp_config.optimizer_offload")),
        ["the trainer's optimizer stay"],
    ),
    (
        (*BASE, "rollout.tensor_model_parallel_size=3", "distributed.gpus_per_node=8"),
        None,
        ("VRL158", "warning", ("rollout.tensor_model_parallel_size", "distributed.gpus_per_node")),
        ["copies of 3 GPUs do not divide the 8 GPUs of the run; 2 are left over", "set it to 1 or 2"],
    ),
]


@pytest.mark.parametrize(("overrides", "cluster", "what", "parts"), FIRING)
def test_fires(
    overrides: tuple[str, ...], cluster: str | None, what: tuple[str, str, tuple[str, ...]], parts: list[str]
) -> None:
    (verdict,) = verdicts(*overrides, cluster=cluster)
    assert (verdict.code, verdict.severity, verdict.keys) == what
    for part in parts:
        assert part in f"{verdict.message}; {verdict.suggestion}"


@pytest.mark.parametrize(
    ("overrides", "cluster"),
    [
        ((*PPO, *maps("cuda:0,cuda:1", "cuda:2,cuda:3")), "8xA100-80G"),
        ((*PPO, *maps("cuda:0", "cuda:0")), None),
        ((*PPO, *maps("cuda:0", "cuda:0"), "model.path=Qwen/Qwen2.5-0.5B-Instruct"), "8xA100-80G"),
        ((*PPO, *maps("cuda:0,cuda:1", "cuda:0,cuda:1"), "model.lora_rank=16"), "8xA100-80G"),
        ((*PPO, *maps("cuda:0", "cuda:0"), "model.path=me/mine"), "8xA100-80G"),
        ((*BASE, *maps("cuda:0,cuda:1", "cuda:1")), None),  # GRPO has no critic
        ((*PPO, *maps("cuda:0,gpu1", "cpu")), None),
        ((*VERL, "data.num_dataloader_workers=32", "data.train_batch_size=1024"), "8xA100-80G,cpus=32"),
        ((*VERL, "data.num_dataloader_workers=0", "data.train_batch_size=64"), None),
        ((*BASE, "data.num_dataloader_workers=64"), "8xA100-80G,cpus=32"),
        ((*BASE, "data.pin_memory=true"), "8xA100-80G"),
        ((*BASE, "model.dtype=bf16"), "1x4090"),
        ((*BASE, "model.dtype=bf16"), None),
        ((*BASE, "critic.dtype=bf16"), "8xV100-32G"),
        ((*VERL, "model.dtype=fp16"), None),
        ((*BASE, "model.dtype=fp16", "actor.dtype=bf16"), None),
        ((*VERL, "rollout.gpu_memory_utilization=0.7"), None),
        (
            (*VERL, "rollout.gpu_memory_utilization=0.9", "fsdp_config={param_offload: true, optimizer_offload: true}"),
            None,
        ),
        ((*BASE, "rollout.gpu_memory_utilization=0.9"), None),
        ((*BASE, "rollout.tensor_model_parallel_size=2", "distributed.gpus_per_node=8"), None),
        ((*BASE, "rollout.tensor_model_parallel_size=3"), None),
    ],
)
def test_near_misses_are_silent(overrides: tuple[str, ...], cluster: str | None) -> None:
    assert verdicts(*overrides, cluster=cluster) == []


def test_large_json(tmp_path: Path) -> None:
    file, small = tmp_path / "train.jsonl", tmp_path / "small.jsonl"
    with file.open("wb") as handle:
        handle.truncate(150 * 2**20)
    small.write_text("{}")
    (verdict,) = verdicts(BASE[0], f"data.train_files=[{small}, {file}, {tmp_path}/absent.jsonl]")
    assert (verdict.code, verdict.severity, verdict.keys) == ("VRL153", "note", ("data.train_files",))
    assert "150 MiB of JSON" in verdict.message


@pytest.mark.parametrize("name", [name for name in preset_names() if not is_base(name)])
@pytest.mark.parametrize("cluster", [None, "8xA100-80G,cpus=64", "1xH100,cpus=64"])
def test_presets_are_clean(name: str, cluster: str | None) -> None:
    context = Context(parse_cluster(cluster) if cluster else None)
    config = load_config([name], env={}).config
    assert [verdict for rule in PITFALLS for verdict in rule(config, context)] == []


def test_every_code_is_explained() -> None:
    codes = [(rule.__doc__ or "").partition(":")[0] for rule in PITFALLS]
    assert codes == [f"VRL{number}" for number in range(150, 159) if number != 156]  # 156 is retired
    for rule in PITFALLS:
        text = inspect.getdoc(rule) or ""
        assert all(f"\n{part}:" in text for part in ("Why", "Example", "Instead"))
