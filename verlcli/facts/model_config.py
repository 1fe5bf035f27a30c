"""A model's `config.json` -> its shape. Key names are those of transformers' config classes, version 4 and 5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from verlcli.errors import ConfigError
from verlcli.facts.families import Family, find_family
from verlcli.facts.shapes import DeltaNet, LatentAttention, ModelShape
from verlcli.facts.vision import vision_params

_NESTED = ("text_config", "llm_config", "language_config")  # where vision models keep the language part
_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token")
_STRETCHED_ALREADY = frozenset({"default", "llama3", "longrope", "su", "mrope", "proportional"})
# Published Gemma 3 files leave out what equals the class's default.
_GEMMA3 = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
}


def shape_from_config(config: Mapping[str, Any], source: str) -> ModelShape:
    """Shape of the model that a parsed `config.json` describes.

    Args:
        config: the file's content; of a vision model, with its nested `text_config`.
        source: where it is from, in words for people.

    Raises:
        ConfigError: a size is missing or no size can be.
    """
    text = _language_part(config)
    size = _Sizes(text, source)
    heads, layers = size.of("num_attention_heads"), size.of("num_hidden_layers")
    latent = _latent(size) if text.get("kv_lora_rank") else None
    hidden = size.of("hidden_size")
    factor, original = _rope(config, text)
    model_type = str(config.get("model_type") or text.get("model_type") or "unknown")
    family = find_family(model_type) or Family()
    head_dim = family.head_dim or hidden // heads
    return ModelShape(
        model_type=model_type,
        architectures=_architectures(config),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=size.of("num_key_value_heads", default=heads),
        head_dim=_latent_head(latent) if latent else size.of("head_dim", default=head_dim),
        intermediate_size=size.of("intermediate_size", "moe_intermediate_size"),
        vocab_size=size.of("vocab_size"),
        max_position_embeddings=size.of("max_position_embeddings", "n_positions", "max_sequence_length"),
        source=source,
        rope_factor=factor,
        original_positions=original,
        tie_word_embeddings=_tied(config, text, family),
        window=_window(text),
        changing_rope=_rope_kinds(text) & {"longrope", "su", "dynamic"} != set(),
        attention_layers=_attention_layers(text, layers),
        latent=latent,
        delta_net=_delta_net(text, size),
        qkv_bias=family.qkv_bias.read(text),
        output_bias=family.output_bias.read(text),
        mlp_bias=family.mlp_bias.read(text),
        head_bias=family.head_bias.read(text),
        qk_norm=family.qk_norm.read(text),
        vision=bool(config.get("vision_config")),
        vision_params=_vision_params(config, hidden),
        quantized=_quantized(config),
        dtype=_dtype(config, text),
        **_experts(text, size, layers),
    )


class _Sizes:
    """Positive whole numbers of one config."""

    def __init__(self, config: Mapping[str, Any], source: str) -> None:
        self._config = config
        self._source = source

    def of(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """The first of `names` that is set, at least `least`, else `default`."""
        name = next((name for name in names if self._config.get(name) is not None), None)
        if name is None and default is not None:
            return default
        value = self._config.get(name or names[0])
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            wanted = f"a whole number from {least} on"
            message = f"{names[0]} is missing" if value is None else f"{name} is {value!r}, not {wanted}"
            raise ConfigError(message, where=self._source, fix="give the config.json of a transformers language model")
        return value


def _language_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    nested = next((config[name] for name in _NESTED if isinstance(config.get(name), Mapping)), config)
    return {**_GEMMA3, **nested} if config.get("model_type") in ("gemma3", "gemma3_text") else nested


def _rope(config: Mapping[str, Any], text: Mapping[str, Any]) -> tuple[float, int | None]:
    """What stretches the positions, and yarn's own start: by vLLM's `_get_and_verify_max_len`, which spares Gemma 3."""
    scaling = text.get("rope_scaling") or text.get("rope_parameters") or {}
    if isinstance(scaling, Mapping) and isinstance(scaling.get("full_attention"), Mapping):
        scaling = scaling["full_attention"]
    if not isinstance(scaling, Mapping) or str(config.get("model_type")).startswith("gemma3"):
        return 1.0, None
    kind, factor = scaling.get("rope_type") or scaling.get("type") or "default", scaling.get("factor")
    if kind in _STRETCHED_ALREADY or isinstance(factor, bool) or not isinstance(factor, (int, float)):
        return 1.0, None
    if not 0 < factor < math.inf:
        return 1.0, None
    original = scaling.get("original_max_position_embeddings") if kind == "yarn" else None
    return float(factor), original if isinstance(original, int) and original > 0 else None


def _rope_kinds(text: Mapping[str, Any]) -> set[str]:
    """Kinds of rotary embedding, of all kinds of layers."""
    given = text.get("rope_scaling") or text.get("rope_parameters") or {}
    each = (
        [given, *(value for value in given.values() if isinstance(value, Mapping))]
        if isinstance(given, Mapping)
        else []
    )
    return {str(one.get("rope_type") or one.get("type")) for one in each}


def _window(text: Mapping[str, Any]) -> int | None:
    window = text.get("sliding_window")
    used = isinstance(window, int) and not isinstance(window, bool) and text.get("use_sliding_window", True)
    return window if used else None


def _tied(config: Mapping[str, Any], text: Mapping[str, Any], family: Family) -> bool:
    said = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    return bool(said) if said is not None else family.tied


def _latent(size: _Sizes) -> LatentAttention:
    return LatentAttention(
        q_lora_rank=size.of("q_lora_rank", default=0) or None,
        kv_lora_rank=size.of("kv_lora_rank"),
        qk_nope_head_dim=size.of("qk_nope_head_dim"),
        qk_rope_head_dim=size.of("qk_rope_head_dim"),
        v_head_dim=size.of("v_head_dim"),
    )


def _latent_head(latent: LatentAttention) -> int:
    return latent.qk_nope_head_dim + latent.qk_rope_head_dim


def _delta_net(text: Mapping[str, Any], size: _Sizes) -> DeltaNet | None:
    if text.get("linear_num_value_heads") is None:
        return None
    return DeltaNet(
        num_key_heads=size.of("linear_num_key_heads"),
        num_value_heads=size.of("linear_num_value_heads"),
        key_head_dim=size.of("linear_key_head_dim"),
        value_head_dim=size.of("linear_value_head_dim"),
        conv_kernel_dim=size.of("linear_conv_kernel_dim"),
    )


def _attention_layers(text: Mapping[str, Any], layers: int) -> int:
    kinds = text.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return sum("attention" in str(kind) and kind != "linear_attention" for kind in kinds)
    every = text.get("full_attention_interval")
    return layers // every if isinstance(every, int) and every > 0 else layers


def _experts(text: Mapping[str, Any], size: _Sizes, layers: int) -> dict[str, int]:
    if not any(text.get(name) for name in _EXPERTS):
        return {}
    expert = size.of("moe_intermediate_size", "intermediate_size")
    shared = size.of("shared_expert_intermediate_size", default=0, least=0)
    return {
        "num_experts": size.of(*_EXPERTS),
        "experts_per_token": size.of(*_EXPERTS_PER_TOKEN),
        "moe_intermediate_size": expert,
        "shared_intermediate_size": shared or expert * size.of("n_shared_experts", default=0, least=0),
        "moe_layers": _moe_layers(text, size, layers),
    }


def _moe_layers(text: Mapping[str, Any], size: _Sizes, layers: int) -> int:
    listed = text.get("mlp_only_layers")
    dense = {layer for layer in listed if isinstance(layer, int)} if isinstance(listed, list) else set()
    first = size.of("first_k_dense_replace", default=0, least=0)
    step = size.of("decoder_sparse_step", default=1)
    return sum(layer >= first and layer not in dense and (layer + 1) % step == 0 for layer in range(layers))


def _architectures(config: Mapping[str, Any]) -> tuple[str, ...]:
    names = config.get("architectures")
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


def _vision_params(config: Mapping[str, Any], hidden: int) -> int | None:
    tower = config.get("vision_config")
    if not tower:
        return 0
    return vision_params(str(config.get("model_type")), tower, hidden) if isinstance(tower, Mapping) else None


def _quantized(config: Mapping[str, Any]) -> str | None:
    method = config.get("quantization_config")
    if not isinstance(method, Mapping):
        return None
    return str(method.get("quant_method") or "unknown")


def _dtype(config: Mapping[str, Any], text: Mapping[str, Any]) -> str | None:
    names = ("dtype", "torch_dtype")
    found = next((part[name] for part in (config, text) for name in names if part.get(name)), None)
    return str(found).removeprefix("torch.") if found else None
