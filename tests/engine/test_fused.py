"""The kernels of small layers, in Triton's interpreter, against the layers of transformers. GPU: tests/gpu."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

_INTERPRETED = """
import copy
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from verlcli.engine import fused
from verlcli.engine.kernels import norm, rotary
norm.PROGRAMS = 3
for family in ("llama", "qwen3"):
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family, vocab_size=50, hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=12, max_position_embeddings=64, pad_token_id=0,
    )
    model = AutoModelForCausalLM.from_config(config).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.3)
    assert fused.FusedLayers(copy.deepcopy(model).to(torch.bfloat16)).complete
    layers = fused.FusedLayers(model)
    assert layers.complete
    ids = torch.randint(50, (2, 9))
    def results():
        model.zero_grad()
        model(input_ids=ids).logits.square().sum().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    own = results()
    with layers.active():
        ours = results()
        model.model.layers[0].mlp.down_proj.weight.requires_grad_(False)
        for name, g in results().items():
            assert (own[name] - g).norm() <= 1e-4 * g.norm(), name
        with torch.no_grad():
            logits = model(input_ids=ids).logits
    for name, g in own.items():
        assert (ours[name] - g).norm() <= 1e-4 * g.norm(), name
    with torch.no_grad():
        assert logits.allclose(model(input_ids=ids).logits, atol=1e-4)
    model.model.layers[1].mlp.act_fn = torch.nn.ReLU()
    replaced = [module for module, _ in fused.FusedLayers(model)._forwards]
    assert model.model.layers[0].mlp in replaced
    assert model.model.layers[1].mlp not in replaced
    forward, backward = model.model.layers[1].mlp.forward, rotary._Rotate.backward
    model.model.layers[1].mlp.forward = lambda x, needed: x  # a layer that wants more is left alone
    assert not fused.FusedLayers(model).complete
    del model.model.layers[1].mlp.forward
    def wrong(ctx, q, k):
        q, k, *others = backward(ctx, q, k)
        return q, -k, *others
    rotary._Rotate.backward = staticmethod(wrong)
    assert not fused.FusedLayers(model)._scopes
    rotary._Rotate.backward = backward
# Whatever way tensors lie in memory.
x, w = torch.randn(6, 10).t(), torch.randn(12)[::2]
wanted = w * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
assert norm.rms_norm(x, w, 1e-6).allclose(wanted, atol=1e-5)
q, k = torch.randn(2, 4, 8, 3).transpose(2, 3), torch.randn(2, 1, 3, 8).expand(2, 2, 3, 8)
cos, sin = torch.randn(2, 8, 3).transpose(1, 2), torch.randn(2, 3, 8)
def half(x):
    return torch.cat([-x[..., 4:], x[..., :4]], -1)
wanted = [y * cos[:, None] + half(y) * sin[:, None] for y in (q, k)]
assert all(a.allclose(b, atol=1e-5) for a, b in zip(rotary.rotate(q, k, cos, sin), wanted))
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_a_model_has_the_same_gradients_through_the_kernels() -> None:
    path = os.pathsep.join(p for p in (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")) if p)
    subprocess.run(
        [sys.executable, "-c", _INTERPRETED], check=True, env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    )
