"""LoRA on its way into vLLM, where there is no vLLM: its arguments, what is handed over, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from verlcli.engine.rollout._vllm_adapter import VllmAdapter, adapter_arguments, layers_left_out, write_adapter
from verlcli.engine.rollout.weights import base_weights
from verlcli.errors import ConfigError

PROJECTIONS = ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]


def make_policy(folder: Path, **lora: Any) -> Any:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    lora = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM"} | lora
    module = get_peft_model(AutoModelForCausalLM.from_pretrained(folder), LoraConfig(**lora))
    with torch.no_grad():
        for i, (_, weight) in enumerate(adapter_weights(module)):
            weight.fill_(0.01 * (i + 1))
    return module


def adapter_weights(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [(name.replace(".default", ""), value) for name, value in module.named_parameters() if ".lora_" in name]


@dataclass
class LoRARequest:
    """`vllm.lora.request.LoRARequest`, what of it is given."""

    lora_name: str
    lora_int_id: int
    lora_path: str


class BaseLayerWithLoRA(nn.Module):
    """`vllm.lora.layers.BaseLayerWithLoRA`: vLLM's own layer, and the adapter around it."""

    def __init__(self, base_layer: nn.Module) -> None:
        super().__init__()
        self.base_layer = base_layer


class VllmModel(nn.Module):
    """A model as vLLM holds it: some layers wrapped, one wrapper under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj = BaseLayerWithLoRA(nn.Linear(4, 12))
        self.norm = nn.LayerNorm(4)
        self.experts = nn.ModuleDict({"gate": self.qkv_proj})


@dataclass
class Llm:
    """`vllm.LLM`, what the adapter asks of it; an adapter is read when it is added, as vLLM reads it."""

    lacks: set[str] = field(default_factory=set)
    error: Exception | None = None
    read: list[tuple[LoRARequest, dict[str, Tensor], dict[str, Any]]] = field(default_factory=list)
    model: Any = field(default_factory=VllmModel)

    @property
    def llm_engine(self) -> Any:
        return self

    def add_lora(self, request: LoRARequest) -> bool:
        if self.error is not None:
            raise self.error
        folder = Path(request.lora_path)
        tensors = load_file(folder / "adapter_model.safetensors")
        self.read.append((request, tensors, json.loads((folder / "adapter_config.json").read_text())))
        self.model.lora_manager = manager(set(tensors), set(tensors) - self.lacks, request.lora_int_id)
        return True

    def apply_model(self, function: Callable[[Any], Any]) -> list[Any]:
        return [function(self.model)]


def manager(adapter: set[str], model: set[str], number: int) -> Any:
    """`vllm.lora.model_manager.LoRAModelManager`: the layers of the newest adapter, and those that it can adapt."""
    adapters = {number: SimpleNamespace(loras=dict.fromkeys(adapter))}
    return SimpleNamespace(get_adapter=adapters.__getitem__, modules=dict.fromkeys(model))


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two names of vLLM that are imported."""
    for name, value in (("request", LoRARequest), ("layers", BaseLayerWithLoRA)):
        module = ModuleType(f"vllm.lora.{name}")
        setattr(module, value.__name__, value)
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(("rank", "wanted"), [(1, 8), (8, 8), (9, 16), (257, 320), (512, 512)])
def test_vllm_is_started_for_the_adapters_layers_and_the_next_rank_it_has(
    tiny_model: Path, rank: int, wanted: int
) -> None:
    assert adapter_arguments(make_policy(tiny_model, r=rank), "bfloat16") == {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": wanted,
        "lora_target_modules": PROJECTIONS,
        "compilation_config": {"cudagraph_specialize_lora": False},
    }
    one = make_policy(tiny_model, r=rank, target_modules=["q_proj"])
    assert adapter_arguments(one, "float16")["lora_target_modules"] == ["q_proj"]


def test_without_lora_vllm_is_started_without(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM

    assert adapter_arguments(AutoModelForCausalLM.from_pretrained(tiny_model), "float32") == {}


@pytest.mark.parametrize(
    ("rank", "dtype", "message", "where"),
    [
        (513, "bfloat16", "takes LoRA ranks up to 512, 513 is asked for", "model.lora_rank"),
        (4, "float32", "computes LoRA in bfloat16 or float16, the policy is in float32", "model.dtype"),
    ],
)
def test_what_vllm_has_no_kernels_for_is_refused(
    tiny_model: Path, rank: int, dtype: str, message: str, where: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        adapter_arguments(make_policy(tiny_model, r=rank), dtype)
    assert caught.value.where == where
    assert "rollout.name: graph" in str(caught.value.fix)


def test_base_and_adapter_together_are_the_whole_policy(tiny_model: Path, tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    policy = make_policy(tiny_model)
    write_adapter(policy, str(tmp_path))
    base = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        for parameter in base.parameters():
            parameter.zero_()  # all of it must come from the stream
    base.load_state_dict(dict(base_weights(policy)), strict=False)
    ids = torch.tensor([[5, 14, 6, 17]])
    with torch.no_grad():
        got, wanted = PeftModel.from_pretrained(base, tmp_path)(ids).logits, policy(ids).logits
        with policy.disable_adapter():
            assert not wanted.allclose(policy(ids).logits, atol=1e-3)
    assert got.equal(wanted)


def test_each_load_hands_over_what_the_trainer_holds_under_a_number_of_its_own(tiny_model: Path) -> None:
    policy, llm = make_policy(tiny_model), Llm()
    adapter = VllmAdapter(policy)
    wanted = []
    for _ in range(3):
        wanted.append({name: value.detach().clone() for name, value in adapter_weights(policy)})
        adapter.load(llm)
        assert adapter.request is llm.read[-1][0]
        with torch.no_grad():
            for _, weight in adapter_weights(policy):
                weight.mul_(2)
    for (_, tensors, config), weights in zip(llm.read, wanted, strict=True):
        assert tensors.keys() == weights.keys()
        assert all(tensors[name].equal(weights[name]) for name in weights)
        assert (config["r"], config["lora_alpha"], config["bias"]) == (4, 8, "none")
    requests = [request for request, _, _ in llm.read]
    assert len({each.lora_int_id for each in requests}) == len({each.lora_name for each in requests}) == 3
    assert min(each.lora_int_id for each in requests) > 1  # vLLM's warm-up has the first
    assert not any(Path(each.lora_path).exists() for each in requests)


def test_a_layer_that_vllm_passes_over_is_refused(tiny_model: Path) -> None:
    policy = make_policy(tiny_model)
    lacked = sorted(name for name, _ in adapter_weights(policy) if "down_proj" in name)
    with pytest.raises(ConfigError, match=rf"cannot adapt {len(lacked)} .* {lacked[0]} the first") as caught:
        VllmAdapter(policy).load(Llm(lacks=set(lacked)))
    assert caught.value.where == "model.lora_target_modules"
    assert "rollout.name: graph" in str(caught.value.fix)


def test_layers_that_vllm_adapts_beyond_the_adapters_own_are_no_loss() -> None:
    assert layers_left_out(manager({"a", "b"}, {"a", "b", "c"}, 2), 2) == []
    assert layers_left_out(manager({"b", "a", "c"}, {"c"}, 2), 2) == ["a", "b"]


def test_an_adapter_that_vllm_refuses_is_the_configs_fault(tiny_model: Path) -> None:
    error = ValueError("vLLM only supports modules_to_save being None.\nmore")
    with pytest.raises(ConfigError, match="does not take this adapter: vLLM only supports modules_to_save being None"):
        VllmAdapter(make_policy(tiny_model)).load(Llm(error=error))


@pytest.mark.parametrize("fails", [False, True])
def test_base_weights_have_their_own_names_while_the_adapter_is_off_and_it_comes_back(fails: bool) -> None:
    llm, seen = Llm(), set()
    wrapper = llm.model.qkv_proj
    try:
        with VllmAdapter(nn.Linear(1, 1)).taken_off(llm):
            seen = {name for name, _ in llm.model.named_parameters()}
            assert llm.model.experts["gate"] is llm.model.qkv_proj is wrapper.base_layer
            if fails:
                raise KeyError("a weight that vLLM does not have")
    except KeyError:
        assert fails
    assert seen == {"qkv_proj.weight", "qkv_proj.bias", "norm.weight", "norm.bias"}
    assert llm.model.qkv_proj is llm.model.experts["gate"] is wrapper
