"""What layers keep, by the kernels that they run with, and which families our kernels cover."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from verlcli.facts import ModelShape, model_shape
from verlcli.plan.memory.activations import (
    FUSED_FAMILIES,
    PRODUCT,
    Kernels,
    LayerRun,
    Recompute,
    backward_bytes,
    kept_tensors,
    layers_bytes,
)

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def shape_of(name: str) -> ModelShape:
    shape = model_shape(name)
    assert shape is not None
    return shape


def run_of(kernels: Kernels, name: str = "Qwen/Qwen2.5-0.5B", **more: Any) -> LayerRun:
    return LayerRun(shape_of(name), kernels, 2, True, **more)


def test_our_kernels_keep_a_layers_smallest_set() -> None:
    hidden, inner, queries, keys, heads = 896, 4864, 896, 128, 14
    stream = 4 * 2 * hidden + 2 * 4  # both norms' inputs and outputs, and a scale each
    attention = 2 * (2 * queries + 2 * keys) + 4 * heads
    assert sum(kept_tensors(run_of("fused")).values()) == stream + attention + 2 * 2 * inner
    compiled = kept_tensors(run_of("compiled"))
    assert compiled[PRODUCT] == 2 * inner
    assert sum(compiled.values()) == stream + attention + 3 * 2 * inner


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"]
)
def test_less_is_kept_the_more_is_recomputed(name: str) -> None:
    ways: tuple[Recompute, ...] = ("none", "selective", "full", "offload")
    kernels: Kernels
    for kernels in ("eager", "compiled", "fused"):
        sizes = [layers_bytes(run_of(kernels, name), way, offloads=True) for way in ways]
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) == len(ways)
        assert backward_bytes(run_of(kernels, name), "full") > backward_bytes(run_of(kernels, name), "none") > 0


def test_frozen_layers_keep_no_inputs_for_weights_without_adapters() -> None:
    adapted = frozenset({"q_proj", "v_proj"})
    kept = kept_tensors(run_of("fused", adapted=adapted, rank=8))
    assert "mlp input" not in kept
    assert PRODUCT not in kept
    assert kept["adapter of q_proj"] == 16
    assert "attention input" in kept
    down = kept_tensors(run_of("fused", adapted=frozenset({"down_proj"}), rank=8))
    assert PRODUCT in down
    assert "attention input" not in down


def _model(family: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **SIZES)).eval()


@pytest.mark.parametrize("family", sorted(FUSED_FAMILIES))
@torch.no_grad()
def test_families_that_our_kernels_cover_compute_what_they_do(family: str) -> None:
    model, kinds = _model(family), set[str]()
    for module in model.modules():
        name = type(module).__name__
        kind = next((kind for kind in ("RMSNorm", "MLP", "Attention") if name.endswith(kind)), None)
        if kind is not None:
            kinds.add(kind)
            assert {"RMSNorm": _is_plain_norm, "MLP": _is_silu_mlp, "Attention": _rotates_halves}[kind](module), name
    assert kinds == {"RMSNorm", "MLP", "Attention"}


@pytest.mark.parametrize("family", ["gemma", "phi3", "cohere", "glm"])
@torch.no_grad()
def test_other_families_are_left_out_for_a_reason(family: str) -> None:
    checks = (("RMSNorm", _is_plain_norm), ("MLP", _is_silu_mlp), ("Attention", _rotates_halves))
    found = [check(m) for m in _model(family).modules() for kind, check in checks if type(m).__name__.endswith(kind)]
    assert not all(found)


def _is_plain_norm(module: Any) -> bool:
    module.weight.copy_(torch.rand_like(module.weight) + 0.5)
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    x = torch.randn(3, module.weight.shape[0])
    return eps is not None and module(x).allclose(
        module.weight * x * (x.pow(2).mean(-1, True) + eps).rsqrt(), atol=1e-5
    )


def _is_silu_mlp(module: Any) -> bool:
    if not all(hasattr(module, part) for part in ("gate_proj", "up_proj", "down_proj")):
        return False
    x = torch.randn(3, SIZES["hidden_size"])
    product = nn.functional.silu(module.gate_proj(x)) * module.up_proj(x)
    return bool(module(x).allclose(module.down_proj(product), atol=1e-5))


def _rotates_halves(module: Any) -> bool:
    rotate = vars(sys.modules[type(module).__module__])["apply_rotary_pos_emb"]
    query, key = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 3, 8)
    cos, sin = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    own = query * cos[:, None] + _halves(query) * sin[:, None]
    return bool(rotate(query, key, cos, sin)[0].allclose(own, atol=1e-5))


def _halves(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)
