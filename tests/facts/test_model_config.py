from __future__ import annotations

from typing import Any

import pytest

from verlcli.errors import ConfigError
from verlcli.facts import ModelShape, shape_from_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def shape(**changes: Any) -> ModelShape:
    config = {**LLAMA, **changes}
    return shape_from_config({key: value for key, value in config.items() if value != "absent"}, "a test")


def test_a_dense_model() -> None:
    assert shape(tie_word_embeddings=True) == ModelShape(
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        hidden_size=2048,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=64,
        intermediate_size=8192,
        vocab_size=128256,
        max_position_embeddings=131072,
        source="a test",
        tie_word_embeddings=True,
        attention_layers=16,
        dtype="bfloat16",
    )


def test_what_a_file_leaves_out_is_what_the_classes_assume() -> None:
    assert shape(num_key_value_heads="absent").num_key_value_heads == 32
    assert shape(num_key_value_heads=None).num_key_value_heads == 32
    assert shape(head_dim=128).head_dim == 128
    assert not shape().tie_word_embeddings
    assert shape(model_type="gemma2").tie_word_embeddings
    assert shape(model_type="qwen3").head_dim == 128
    assert (shape(model_type="glm4").qkv_bias, shape().qkv_bias) == (True, False)
    assert shape(dtype="float16", torch_dtype="absent").dtype == "float16"
    assert shape(torch_dtype="absent").dtype is None
    assert shape(architectures="absent").architectures == ()


@pytest.mark.parametrize(
    ("scaling", "factor", "length"),
    [
        (None, 1.0, 32768),
        ({"rope_type": "default", "factor": 4.0}, 1.0, 32768),
        ({"type": "linear", "factor": 4}, 4.0, 131072),
        ({"type": "dynamic", "factor": 2.0}, 2.0, 65536),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}, 4.0, 32768),
        ({"rope_type": "yarn", "factor": 4.0}, 4.0, 131072),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 1.0, 32768),
        ({"type": "longrope", "factor": 8.0}, 1.0, 32768),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 1.0, 32768),
        ({"full_attention": {"rope_type": "linear", "factor": 2.0}, "sliding_attention": {}}, 2.0, 65536),
        ({"type": "linear", "factor": "4"}, 1.0, 32768),
        ({"type": "linear", "factor": float("inf")}, 1.0, 32768),
        ({"type": "linear", "factor": -1}, 1.0, 32768),
        ("linear", 1.0, 32768),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_the_longest_sequence_follows_the_rope_scaling(key: str, scaling: Any, factor: float, length: int) -> None:
    stretched = shape(max_position_embeddings=32768, **{key: scaling})
    assert (stretched.rope_factor, stretched.max_length) == (factor, length)


def test_gemma3_counts_its_scaling_in_its_positions_and_leaves_out_defaults() -> None:
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "model_type": "gemma3_text"}
    scaling = {"factor": 8.0, "rope_type": "linear"}
    config = {"model_type": "gemma3", "text_config": {**text, "rope_scaling": scaling}, "vision_config": {"x": 1}}
    gemma = shape_from_config(config, "a test")
    assert (gemma.num_attention_heads, gemma.num_key_value_heads, gemma.head_dim) == (8, 4, 256)
    assert (gemma.vocab_size, gemma.max_length, gemma.vision) == (262208, 131072, True)
    assert gemma.tie_word_embeddings


@pytest.mark.parametrize("nested", ["text_config", "llm_config", "language_config"])
def test_a_vision_model_has_the_shape_of_its_language_part(nested: str) -> None:
    config = {"model_type": "qwen3_vl", "architectures": ["A"], nested: LLAMA, "vision_config": {"depth": 27}}
    vision = shape_from_config({**config, "tie_word_embeddings": True}, "a test")
    assert (vision.model_type, vision.architectures, vision.hidden_size) == ("qwen3_vl", ("A",), 2048)
    assert vision.vision
    assert vision.tie_word_embeddings
    assert vision.dtype == "bfloat16"
    assert not shape().vision


def test_experts_by_the_names_of_each_family() -> None:
    mixtral = shape(num_local_experts=8, num_experts_per_tok=2)
    assert (mixtral.num_experts, mixtral.experts_per_token, mixtral.moe_intermediate_size) == (8, 2, 8192)
    assert mixtral.moe_layers == 16
    qwen = shape(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, decoder_sparse_step=2)
    assert (qwen.num_experts, qwen.moe_intermediate_size, qwen.moe_layers) == (128, 768, 8)
    listed = shape(num_experts=128, num_experts_per_tok=8, mlp_only_layers=[0, 3], shared_expert_intermediate_size=512)
    assert (listed.moe_layers, listed.shared_intermediate_size) == (14, 512)
    deepseek = shape(n_routed_experts=256, num_experts_per_tok=8, n_shared_experts=2, first_k_dense_replace=3)
    assert (deepseek.moe_layers, deepseek.shared_intermediate_size) == (13, 16384)
    assert shape(num_experts=0).moe_layers == 0


def test_latent_attention_caches_one_compressed_row_a_layer() -> None:
    ranks = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    latent = shape(q_lora_rank=None, **ranks)
    assert latent.latent is not None
    assert (latent.latent.q_lora_rank, latent.head_dim) == (None, 192)
    assert latent.kv_numbers_per_token == 16 * (512 + 64)
    assert shape().kv_numbers_per_token == 16 * 2 * 8 * 64


def test_only_layers_with_attention_cache_keys() -> None:
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 4
    assert shape(layer_types=kinds).attention_layers == 4
    assert shape(layer_types=["sliding_attention", "full_attention"] * 8).attention_layers == 16
    assert shape(full_attention_interval=4).attention_layers == 4
    assert shape(layer_types=kinds).params is None


@pytest.mark.parametrize(
    ("config", "method"),
    [(None, None), ({"quant_method": "fp8"}, "fp8"), ({"bits": 4}, "unknown"), ("awq", None)],
)
def test_quantized_weights_are_named(config: Any, method: str | None) -> None:
    assert shape(quantization_config=config).quantized == method


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        ({"num_hidden_layers": None}, "num_hidden_layers is missing"),
        ({"vocab_size": 0}, "vocab_size is 0, not a whole number from 1 on"),
        ({"vocab_size": -5}, "vocab_size is -5"),
        ({"num_attention_heads": "32"}, "num_attention_heads is '32'"),
        ({"num_attention_heads": [32, 16]}, r"num_attention_heads is \[32, 16\]"),
        ({"num_key_value_heads": True}, "num_key_value_heads is True"),
        ({"intermediate_size": 1.5}, "intermediate_size is 1.5"),
        ({"max_position_embeddings": "absent"}, "max_position_embeddings is missing"),
        ({"num_experts": 8}, "num_experts_per_tok is missing"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": "x"}, "n_shared_experts is 'x'"),
        ({"num_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": -1}, "a whole number from 0 on"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim is missing"),
    ],
)
def test_a_size_that_cannot_be_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        shape(**changes)
    assert caught.value.where == "a test"
