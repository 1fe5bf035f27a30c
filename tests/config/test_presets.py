from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from verlcli.config import load_config
from verlcli.config.presets import copy_preset, describe, is_base, preset_names, preset_path
from verlcli.errors import ConfigError
from verlcli.resources import schema_path

NAMES = preset_names()
WHOLE = [name for name in NAMES if not is_base(name)]  # a base needs a model and data on top


def test_the_documented_presets_ship() -> None:
    assert {"7b-single-node", "70b-cluster", "cpu-gpu-hybrid"} <= set(NAMES)


@pytest.mark.parametrize("name", WHOLE)
def test_preset_has_no_errors(name: str) -> None:
    loaded = load_config([name], env={})
    assert loaded.ok, loaded.problems
    assert loaded.name == name


def test_a_base_lacks_a_model_and_data_and_nothing_else() -> None:
    assert set(NAMES) - set(WHOLE) == {"verl-defaults"}
    assert "VRL005" in {problem.code for problem in load_config(["verl-defaults"], env={}).problems}
    on_top = {
        "model": {"path": "a/b"},
        "data": {"train_files": "hf/a.parquet"},
        "algorithm": {"name": "grpo"},
        "rollout": {"name": "vllm", "n": 8},
        "training": {"use_dynamic_bsz": True},
    }
    problems = load_config(["verl-defaults", on_top], env={}).problems
    assert [problem for problem in problems if problem.severity == "error"] == []


@pytest.mark.parametrize("name", NAMES)
def test_preset_is_headed_for_editors_and_described(name: str) -> None:
    lines = preset_path(name).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../schemas/config.schema.json"
    assert lines[1] == f"# {describe(preset_path(name))}"
    assert len(describe(preset_path(name))) > 20


def test_presets_pass_an_independent_checker() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema_path("config"))]
    done = subprocess.run([*command, *(str(preset_path(name)) for name in NAMES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("7b-single-node", "model.path", "meta-llama/Llama-2-7b-chat-hf"),
        ("7b-single-node", "model.lora_rank", 64),
        ("7b-single-node", "model.enable_gradient_checkpointing", True),
        ("7b-single-node", "rollout.name", "vllm"),
        ("7b-single-node", "rollout.tensor_model_parallel_size", 2),
        ("7b-single-node", "rollout.max_num_batched_tokens", 16384),
        ("7b-single-node", "rollout.gpu_memory_utilization", 0.9),
        ("7b-single-node", "training.ppo_mini_batch_size", 512),
        ("7b-single-node", "training.ppo_micro_batch_size_per_gpu", 64),
        ("7b-single-node", "training.use_dynamic_bsz", True),
        ("7b-single-node", "training.fsdp_config.param_offload", False),
        ("7b-single-node", "training.fsdp_config.mixed_precision", "bf16"),
        ("70b-cluster", "actor.ulysses_sequence_parallel_size", 4),
        ("70b-cluster", "reference.fsdp_wrap_policy", "TRANSFORMER_BASED_WRAP"),
        ("70b-cluster", "critic.ulysses_sequence_parallel_size", 4),
        ("70b-cluster", "critic.use_flash_attention", True),
        ("70b-cluster", "reward_model.dtype", "fp16"),
        ("70b-cluster", "distributed.backend", "nccl"),
        ("70b-cluster", "distributed.timeout", 1800),
        ("70b-cluster", "distributed.skip_grad_sync", True),
        ("70b-cluster", "distributed.nnodes", 4),
        ("70b-cluster", "backend", "verl"),
        ("cpu-gpu-hybrid", "rollout.cpu_offload", True),
        ("cpu-gpu-hybrid", "rollout.cpu_offload_ratio", 0.3),
        ("cpu-gpu-hybrid", "data.num_dataloader_workers", 12),
        ("cpu-gpu-hybrid", "data.pin_memory", True),
        ("cpu-gpu-hybrid", "model.enable_gradient_checkpointing", True),
        ("cpu-gpu-hybrid", "model.use_recompute", True),
    ],
)
def test_preset_keeps_the_documented_value(name: str, key: str, value: object) -> None:
    loaded = load_config([name], env={})
    assert loaded.origins[key][-1].value == value
    assert loaded.origins[key][-1].kind == "preset"


@pytest.mark.parametrize("name", WHOLE)
def test_copy_of_a_preset_gives_the_same_config(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = copy_preset(name, tmp_path)
    assert written == tmp_path / f"{name}.yaml"
    assert load_config([written], env={}).config == load_config([name], env={}).config
    header = written.read_text(encoding="utf-8").splitlines()[0]
    assert Path(header.split("$schema=")[1]) == schema_path("config")


def test_copy_refuses_to_overwrite_and_to_write_nowhere(tmp_path: Path) -> None:
    target = tmp_path / "mine.yaml"
    target.write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        copy_preset("7b-single-node", target)
    assert target.read_text() == "mine"
    with pytest.raises(ConfigError, match="cannot be written"):
        copy_preset("7b-single-node", tmp_path / "no" / "such.yaml")
    with pytest.raises(ConfigError, match="no preset 'x'"):
        copy_preset("x", tmp_path)


def test_description_is_empty_without_a_comment(write: Any) -> None:
    assert describe(write("a: 1\n# late\n")) == ""
