"""Exact counts, against the modules that transformers and PEFT build without memory."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from verlcli.config.load import load_config
from verlcli.errors import ConfigError
from verlcli.facts import ModelShape, model_shape, shape_from_config
from verlcli.facts.families import _FAMILIES
from verlcli.facts.models import _table
from verlcli.facts.parameters import Parameters, lora_params, parameter_counts

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

Products = Counter[tuple[str, int, int, bool, bool]]  # as the fields of `Linear`, with how often
VISION = ("visual", "vision_tower", "multi_modal_projector")
NOT_SIZES = ("model_type", "quantization_config", "rope_scaling", "vision_config", "text_config", "architectures")
NOT_COUNTED = ("max_position_embeddings", "rope_scaling", "architectures", "torch_dtype", "quantization_config")
NOT_IN_TRANSFORMERS = {"mimo", "kimi_k2"}


def built(config: Mapping[str, Any]) -> Any:
    """The model of a `config.json`, without memory; a vision tower has its class's own sizes."""
    sizes = {key: value for key, value in config.items() if key not in NOT_SIZES}
    kind = transformers.AutoModelForCausalLM
    if "vision_config" in config:
        text = {key: value for key, value in config.get("text_config", sizes).items() if key not in NOT_SIZES}
        sizes = {key: sizes[key] for key in ("tie_word_embeddings",) if key in sizes} | {"text_config": text}
        kind = transformers.AutoModelForImageTextToText
    with torch.device("meta"):
        return kind.from_config(transformers.AutoConfig.for_model(config["model_type"], **sizes))


def counts_of(model: Any) -> tuple[Products, dict[str, int]]:
    """Products of the language part by name and size, and the numbers of all else by `Parameters`' names."""
    products: Products = Counter()
    rest = {"embedding": 0, "head": 0, "norms": 0, "other": 0}
    seen: set[int] = set()
    for path, module in model.named_modules():
        own = {name: weight for name, weight in module.named_parameters(recurse=False) if id(weight) not in seen}
        seen |= {id(weight) for weight in own.values()}
        if not own or any(part in path for part in VISION):
            continue
        numbers, kind = sum(weight.numel() for weight in own.values()), type(module).__name__
        if module is model.get_output_embeddings():
            rest["head"] += numbers
        elif module is model.get_input_embeddings():
            rest["embedding"] += numbers
        elif kind.endswith("Experts"):
            products += experts_of(own, transposed="GptOss" in kind)
        elif isinstance(module, torch.nn.Linear) or kind.endswith("Router"):
            outputs, inputs = own["weight"].shape
            name = path.rpartition(".")[2]
            products[(name, inputs, outputs, "bias" in own, isinstance(module, torch.nn.Linear))] += 1
        else:
            rest["norms" if "Norm" in kind else "other"] += numbers
    return products, rest


def experts_of(own: Mapping[str, Any], *, transposed: bool) -> Products:
    products: Products = Counter()
    for name in ("gate_up_proj", "down_proj"):
        experts, outputs, inputs = own[name].shape
        outputs, inputs = (inputs, outputs) if transposed else (outputs, inputs)
        products[(f"experts.{name}", inputs, outputs, f"{name}_bias" in own, False)] += experts
    return products


def counts_here(counts: Parameters) -> tuple[Products, dict[str, int]]:
    products: Products = Counter()
    for linear in counts.linears:
        products[(linear.name, linear.inputs, linear.outputs, linear.bias, linear.module)] += linear.count
    return products, {name: getattr(counts, name) for name in ("embedding", "head", "norms", "other")}


def language_params(model: Any) -> int:
    return sum(w.numel() for name, w in model.named_parameters() if not any(part in name for part in VISION))


def counts(shape: ModelShape) -> Parameters:
    found = parameter_counts(shape)
    assert found is not None
    return found


def assert_same(config: Mapping[str, Any]) -> None:
    model, shape = built(config), shape_from_config(config, "a test")
    assert counts_here(counts(shape)) == counts_of(model)
    assert shape.params == counts(shape).total == language_params(model)


def table_rows() -> dict[str, dict[str, Any]]:
    """First id and config of each row of the table; rows that differ in what has no parameters stand once."""
    rows = {}
    for entry in _table():
        if entry["config"]["model_type"] not in NOT_IN_TRANSFORMERS:
            sizes = {key: value for key, value in entry["config"].items() if key not in NOT_COUNTED}
            rows.setdefault(repr(sizes), (entry["ids"][0], entry["config"]))
    return dict(rows.values())


ROWS = table_rows()


def test_the_table_has_enough_models_to_compare() -> None:
    assert len(ROWS) >= 25


@pytest.mark.parametrize("name", ROWS)
def test_a_model_of_the_table_has_the_modules_that_transformers_builds(name: str) -> None:
    assert_same(ROWS[name])


SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
LOCAL = {"num_local_experts": 6, "num_experts_per_tok": 2}
ROUTED = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
SHARED = {
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 40,
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
LATENT = {"q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12}
DELTA = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 2,
}
OWN_SIZES: dict[str, dict[str, Any]] = {
    "deepseek_v3": SHARED | LATENT,
    "glm4_moe": SHARED,
    "gpt_oss": LOCAL,
    "granitemoe": LOCAL,
    "minimax_m2": LOCAL,
    "mixtral": LOCAL,
    "olmoe": {"num_experts": 6, "num_experts_per_tok": 2},
    "phimoe": LOCAL,
    "qwen2_moe": ROUTED | {"shared_expert_intermediate_size": 24, "decoder_sparse_step": 2},
    "qwen3_5": DELTA,
    "qwen3_5_moe": DELTA | ROUTED | {"shared_expert_intermediate_size": 24},
    "qwen3_moe": ROUTED | {"mlp_only_layers": [0]},
    "qwen3_vl_moe": ROUTED,
}
WITH_VISION = {"gemma3", "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}
SWITCHES = (
    "attention_bias",
    "attention_out_bias",
    "mlp_bias",
    "qkv_bias",
    "bias",
    "use_bias",
    "lm_head_bias",
    "use_qk_norm",
    "tie_word_embeddings",
)
FAMILIES = sorted(set(_FAMILIES) - NOT_IN_TRANSFORMERS)


def tiny(family: str, **changes: Any) -> dict[str, Any]:
    """A small config of a family that says no more than its sizes."""
    text = SIZES | OWN_SIZES.get(family, {}) | changes
    if family not in WITH_VISION:
        return {"model_type": family, **text}
    tied = {key: text.pop(key) for key in ("tie_word_embeddings",) if key in text}
    return {"model_type": family, "text_config": text, "vision_config": {"depth": 1}, **tied}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_that_is_silent_has_its_classes_defaults(family: str) -> None:
    assert_same(tiny(family))


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_switches_of_a_family_are_read(family: str, value: bool) -> None:
    head_dim = {} if family in ("olmoe", "qwen2_vl", "qwen2_5_vl") else {"head_dim": 32}  # these take no other
    assert_same(tiny(family, **dict.fromkeys(SWITCHES, value), **head_dim))


def test_latent_attention_with_one_full_query() -> None:
    assert_same(tiny("deepseek_v3", q_lora_rank=None, attention_bias=True))


def test_layers_without_attention_need_their_sizes() -> None:
    text = {key: value for key, value in tiny("qwen3_5")["text_config"].items() if "linear" not in key}
    assert shape_from_config({"model_type": "qwen3_5", "text_config": text}, "a test").params is None
    assert shape_from_config({**tiny("llama"), **DELTA}, "a test").params is None


def test_a_shape_that_a_config_file_holds_is_counted_alike(tmp_path: Path) -> None:
    shape = tiny("qwen3", attention_bias=True, layer_types=["full_attention"] * 4)
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({"model": {"shape": shape}, "data": {"source": "arithmetic"}}), encoding="utf-8")
    held = load_config([file], env={}).config.model.shape
    assert held is not None
    assert counts(shape_from_config(held, "model.shape")) == counts(shape_from_config(shape, "a test"))
    assert shape_from_config(held, "model.shape").params == language_params(built(shape))


def adapter_params(config: Mapping[str, Any], rank: int, targets: str | list[str]) -> int:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=rank, target_modules=targets, task_type="CAUSAL_LM")
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        adapted = peft.get_peft_model(built(config), lora, autocast_adapter_dtype=False)
    return sum(weight.numel() for name, weight in adapted.named_parameters() if "lora_" in name)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - WITH_VISION))
def test_adapters_on_all_linear_are_those_that_peft_adds(family: str) -> None:
    shape = shape_from_config(tiny(family), "a test")
    assert lora_params(shape, 8, "all-linear") == adapter_params(tiny(family), 8, "all-linear")


@pytest.mark.parametrize(
    ("family", "targets"),
    [
        ("llama", ["q_proj"]),
        ("llama", ["q_proj", "v_proj", "no_such_name"]),
        ("llama", "ALL-LINEAR"),
        ("llama", ["embed_tokens", "down_proj"]),
        ("llama", ["lm_head", "down_proj"]),
        ("llama", ["lm_head"]),
        ("phi3", ["qkv_proj", "gate_up_proj"]),
        ("deepseek_v3", ["q_a_proj", "kv_b_proj"]),
        ("deepseek_v3", ["gate_proj", "up_proj"]),
        ("qwen3_moe", ["q_proj", "gate_proj", "up_proj", "down_proj"]),
        ("qwen3_moe", ["gate"]),
        ("qwen2_moe", ["gate_proj", "shared_expert_gate"]),
        ("mixtral", ["w1", "w3"]),
        ("mixtral", ["w2", "q_proj"]),
    ],
)
def test_adapters_on_named_modules_are_those_that_peft_adds(family: str, targets: str | list[str]) -> None:
    shape = shape_from_config(tiny(family, tie_word_embeddings=False), "a test")
    assert lora_params(shape, 4, targets) == adapter_params(tiny(family, tie_word_embeddings=False), 4, targets) > 0


def test_no_rank_adds_nothing() -> None:
    assert lora_params(shape_from_config(tiny("llama"), "a test"), 0, "all-linear") == 0


@pytest.mark.parametrize(
    "targets", ["model.*q_proj", "q_proj", ["self_attn.q_proj"], ["q_proj", "layers.0.mlp.up_proj"]]
)
def test_a_path_or_a_pattern_is_not_counted(targets: str | list[str]) -> None:
    assert lora_params(shape_from_config(tiny("llama"), "a test"), 4, targets) is None


def test_adapters_of_an_unknown_model_are_not_counted() -> None:
    shape = model_shape("XiaomiMiMo/MiMo-7B-RL")
    assert shape is not None
    assert lora_params(shape, 4, "all-linear") is None


@pytest.mark.parametrize(
    ("family", "targets", "message", "fix"),
    [
        ("llama", ["q_prj"], "no module of this model is named q_prj", "down_proj, gate_proj, k_proj"),
        ("phi3", ["q_proj", "k_proj"], "named k_proj, q_proj", "qkv_proj"),
        ("gpt_oss", ["router"], "named router", "q_proj"),
        ("qwen3_moe", ["q_proj", "gate_proj"], "gate_proj without up_proj", "gate_proj and up_proj, or neither"),
    ],
)
def test_targets_that_peft_refuses_are_named(family: str, targets: list[str], message: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        lora_params(shape_from_config(tiny(family), "a test"), 4, targets)
    assert message in caught.value.message
    assert fix in str(caught.value.fix)
    assert caught.value.where == "model.lora_target_modules"
    with pytest.raises(ValueError, match=r"not supported|not found|Cannot convert"):
        adapter_params(tiny(family), 4, targets)
