"""The trainer's weights as rollout engines with a copy of their own take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from verlcli.engine.rollout.weights import base_weights, merged_weight


def test_weights_of_a_plain_model_are_the_trainers_own_storage(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    stream = dict(base_weights(model))
    assert {name: value.data_ptr() for name, value in stream.items()} == {
        name: parameter.data_ptr() for name, parameter in model.named_parameters()
    }
    assert not any(value.requires_grad for value in stream.values())


@pytest.mark.parametrize("target", ["all-linear", ["q_proj"]])
def test_lora_is_left_out_under_the_bases_own_names(tiny_model: Path, target: Any) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(tiny_model)
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(r=4, target_modules=target))
    stream, wanted = dict(base_weights(adapted)), dict(plain.named_parameters())
    assert stream.keys() == wanted.keys()
    assert all(value.equal(wanted[name]) for name, value in stream.items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layers_merged_weight_does_what_the_layer_does_and_the_layer_stays(dtype: torch.dtype) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    layers = nn.ModuleDict({"up": nn.Linear(16, 32, bias=False, dtype=dtype)})
    module = get_peft_model(layers, LoraConfig(r=4, lora_alpha=8, target_modules=["up"], init_lora_weights=False))  # type: ignore[arg-type]
    layer: Any = module.base_model.model["up"]
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    inputs = torch.randn(8, 16, dtype=dtype)
    with torch.no_grad():
        wanted = layer(inputs)
        got = inputs @ merged_weight(layer, layer.base_layer.weight).T
        assert not layer.base_layer(inputs).allclose(wanted, atol=0.1)
        with module.disable_adapter():
            assert merged_weight(layer, layer.base_layer.weight) is layer.base_layer.weight
    assert got.allclose(wanted, atol=1e-5 if dtype == torch.float32 else 0.05)
    assert all(value.equal(before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("loaded", [True, False], ids=["from a folder", "made here"])
def test_experts_are_given_as_their_checkpoint_holds_them(tmp_path: Path, loaded: bool) -> None:
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 16, "moe_intermediate_size": 8, "num_experts": 4, "head_dim": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2, "vocab_size": 19}
    model: Any = Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **heads))
    model.save_pretrained(tmp_path)
    if loaded:
        model = AutoModelForCausalLM.from_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    stream = dict(base_weights(model))
    assert stream.keys() == saved.keys()
    assert all(value.equal(saved[name]) for name, value in stream.items())
