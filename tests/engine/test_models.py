"""Loading models: what is accepted, and one message for what is not."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.config import load_config
from verlcli.config.types import ModelConfig
from verlcli.engine import models
from verlcli.errors import ConfigError, MissingDependencyError, VerlCliError

CPU = torch.device("cpu")


@pytest.fixture
def model_config(tiny_model: Path) -> ModelConfig:
    return load_config([], [f"model.path={tiny_model}", "data.source=arithmetic"], env={}).config.model


def load(path: str, config: ModelConfig) -> Any:
    return models.load_causal_lm(models.locate(path), config, dtype=torch.float32, device=CPU)


def test_a_folder_loads_in_the_dtype_that_was_asked(tiny_model: Path, model_config: ModelConfig) -> None:
    model = load(str(tiny_model), model_config)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert not model.training


@pytest.mark.parametrize(
    ("damage", "wanted"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 100), "cannot load"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot load"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "no-such-model"}'), "cannot load"),
        (shutil.rmtree, "no such model folder"),
    ],
)
def test_a_broken_folder_gets_one_message_with_its_path(
    tiny_model: Path, tmp_path: Path, model_config: ModelConfig, damage: Callable[[Path], object], wanted: str
) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_model, folder)
    damage(folder)
    with pytest.raises(ConfigError, match=wanted) as caught:
        load(str(folder), model_config)
    assert str(folder) in str(caught.value)
    assert caught.value.fix


def test_weights_that_would_run_code_are_refused(tiny_model: Path, tmp_path: Path, model_config: ModelConfig) -> None:
    folder = tmp_path / "evil"
    shutil.copytree(tiny_model, folder)
    (folder / "model.safetensors").unlink()
    marker = tmp_path / "ran"

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (marker,))

    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ConfigError, match="cannot load"):
        load(str(folder), model_config)
    assert not marker.exists()


def test_code_in_a_model_folder_is_refused_unless_trusted(
    tiny_model: Path, tmp_path: Path, model_config: ModelConfig
) -> None:
    import json

    folder = tmp_path / "custom"
    shutil.copytree(tiny_model, folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "custom-x", "auto_map": {"AutoConfig": "m.C", "AutoModelForCausalLM": "m.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    marker = tmp_path / "ran"
    (folder / "m.py").write_text(f"open({str(marker)!r}, 'w')\n")
    with pytest.raises(VerlCliError) as caught:
        load(str(folder), model_config)
    assert "model.trust_remote_code" in str(caught.value)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("path", "kind", "wanted"),
    [
        ("/no/such/file.gguf", ConfigError, "no such file"),
        ("./no-such-folder", ConfigError, "no such model folder"),
        (__file__, ConfigError, "is a file"),
        ("pkg:no_such_package/x.gguf", MissingDependencyError, "pip install"),
    ],
)
def test_paths_that_lead_nowhere(path: str, kind: type[VerlCliError], wanted: str) -> None:
    with pytest.raises(kind, match=wanted):
        models.locate(path)


def test_a_hub_id_is_left_to_the_hub() -> None:
    assert models.locate("owner/name") == models.ModelSource("owner/name")
    assert models.locate("owner/name").path is None


def test_an_unreachable_hub_model_is_explained(model_config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="cannot load no-such-owner/no-such-model") as caught:
        load("no-such-owner/no-such-model", model_config)
    assert "local folder" in str(caught.value)


def test_lora_targets_that_match_nothing_list_the_modules(tiny_model: Path, model_config: ModelConfig) -> None:
    config = replace(model_config, lora_rank=4, lora_target_modules=("q_prj",))
    with pytest.raises(ConfigError, match="q_proj"):
        models.add_lora(load(str(tiny_model), model_config), config)


def test_the_critic_starts_at_zero_and_every_parameter_is_counted_once(
    tiny_model: Path, model_config: ModelConfig
) -> None:
    critic = models.build_value_model(load(str(tiny_model), model_config), model_config)
    ids = torch.tensor([[5, 14, 6, 17]])
    assert critic(ids, torch.ones_like(ids), torch.arange(4)[None]).tolist() == [[0.0] * 4]
    names = [name for name, _ in critic.named_parameters()]
    assert len(names) == len(set(names))
    assert not any("lm_head" in name for name in names)
