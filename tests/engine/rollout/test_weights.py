"""The trainer's weights as rollout engines with a copy of their own take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.engine.rollout.weights import policy_weights


def test_weights_of_a_plain_model_are_the_trainers_own_storage(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    stream = dict(policy_weights(model))
    assert {name: value.data_ptr() for name, value in stream.items()} == {
        name: parameter.data_ptr() for name, parameter in model.named_parameters()
    }
    assert not any(value.requires_grad for value in stream.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lora_is_merged_under_the_bases_names_and_the_module_stays(tiny_model: Path, dtype: torch.dtype) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    plain = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=dtype)
    module = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_model, dtype=dtype),
        LoraConfig(r=4, lora_alpha=8, target_modules="all-linear"),
    )
    torch.manual_seed(0)
    for name, parameter in module.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    plain.load_state_dict(dict(policy_weights(module)), strict=False)
    assert {name for name, _ in policy_weights(module)} == {name for name, _ in plain.named_parameters()}
    assert all(value.equal(before[name]) for name, value in module.state_dict().items())
    ids = torch.tensor([[5, 14, 6, 17]])
    with torch.no_grad():
        wanted, got = module(ids).logits.float(), plain(ids).logits.float()
        with module.disable_adapter():
            assert not wanted.allclose(module(ids).logits.float(), atol=0.01)
    assert got.allclose(wanted, atol=1e-5 if dtype == torch.float32 else 0.03)


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
    stream = dict(policy_weights(model))
    assert stream.keys() == saved.keys()
    assert all(value.equal(saved[name]) for name, value in stream.items())
