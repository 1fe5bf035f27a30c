"""Tiny random models of the dense families, each with what sets it apart switched on."""

from __future__ import annotations

from typing import Any

import torch

SIZES: dict[str, Any] = {
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_WINDOW = {"sliding_window": 6}
_GEMMA = {"head_dim": 8, "query_pre_attn_scalar": 8}
_TURNS = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "mistral": ("Mistral", _WINDOW),
    "qwen2": ("Qwen2", {}),
    "qwen2-sliding": ("Qwen2", _WINDOW | _TURNS | {"use_sliding_window": True}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
    "gemma": ("Gemma", {"head_dim": 8}),
    "gemma2": ("Gemma2", _GEMMA | {"attn_logit_softcapping": None} | _WINDOW | _TURNS),
    "gemma3": ("Gemma3", _GEMMA | {"final_logit_softcapping": 5.0} | _WINDOW | _TURNS),
    "phi3": ("Phi3", _WINDOW),
    "smollm3": ("SmolLM3", {"no_rope_layers": [1, 0, 1]}),
    "olmo2": ("Olmo2", {}),
    "gpt2": ("GPT2", {}),
    "granite": ("Granite", {"logits_scaling": 4.0, "attention_multiplier": 0.4, "embedding_multiplier": 2.0}),
}
UNSUPPORTED: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma2-softcap": ("Gemma2", _GEMMA | {"attn_logit_softcapping": 2.0}),
    "phimoe-window": ("Phimoe", {"sliding_window": 24, "num_local_experts": 4}),
    "lfm2": ("Lfm2", {"layer_types": ["conv", "full_attention", "conv"]}),
    "bloom": ("Bloom", {"n_layer": 3, "n_head": 4}),
}


def build(name: str) -> Any:
    """The model in fp32 and eval mode; weights larger than usual, so that positions and masks matter."""
    import transformers

    kind, changes = (FAMILIES | UNSUPPORTED)[name]
    torch.manual_seed(0)
    suffix = "TextConfig" if kind == "Gemma3" else "Config"
    model_class = "GPT2LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM"
    config = getattr(transformers, kind + suffix)(**(SIZES | changes))
    config._attn_implementation = (
        "eager" if kind in ("Gemma2", "Bloom") else "sdpa"
    )  # transformers has no other for these
    model = getattr(transformers, model_class)(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.normal_(std=0.2)
    return model
