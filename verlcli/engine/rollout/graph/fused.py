"""Small layers of a Hugging Face decoder as one kernel each while the rollout runs, each checked before it is used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.kernels import layers as kernels

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}  # relative, of one layer's output
ROPE = "apply_rotary_pos_emb"


class FusedLayers:
    """Which layers of `model` a kernel replaces. Only replacements that give the layer's own result are kept."""

    def __init__(self, model: nn.Module) -> None:
        self._forwards: list[tuple[Any, Callable[..., Tensor]]] = []
        self._checked: dict[tuple[Any, ...], bool] = {}
        for module in model.modules():
            for candidate in (_norm, _mlp):
                forward = candidate(module)
                if forward is not None and self._agrees(module, forward):
                    self._forwards.append((module, forward))
        self._scopes = _rope_scopes(model)

    def _agrees(self, module: Any, forward: Callable[..., Tensor]) -> bool:
        """One check a class and shape: the layers of a decoder are alike."""
        weight = next(module.parameters())
        key = (type(module), weight.shape, weight.dtype)
        if key not in self._checked:
            generator = torch.Generator(weight.device).manual_seed(0)
            x = torch.randn(4, 3, weight.shape[-1], generator=generator, device=weight.device).to(weight.dtype)
            with torch.no_grad():
                own, ours = module(x).float(), forward(x).float()
            self._checked[key] = bool((own - ours).norm() <= TOLERANCE[weight.dtype] * own.norm())
        return self._checked[key]

    @contextmanager
    def active(self) -> Iterator[None]:
        """While the model runs; nothing of it stays."""
        originals = [scope[ROPE] for scope in self._scopes]
        for module, forward in self._forwards:
            module.forward = forward
        for scope, original in zip(self._scopes, originals, strict=True):
            scope[ROPE] = _rotation(original)
        try:
            yield
        finally:
            for module, _ in self._forwards:
                del module.forward
            for scope, original in zip(self._scopes, originals, strict=True):
                scope[ROPE] = original


def _norm(module: Any) -> Callable[..., Tensor] | None:
    weight = getattr(module, "weight", None)
    if not type(module).__name__.endswith("RMSNorm") or weight is None or weight.dim() != 1:
        return None
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if eps is None:
        return None
    return lambda hidden_states: kernels.rms_norm(hidden_states, module.weight, eps)


def _mlp(module: Any) -> Callable[..., Tensor] | None:
    parts = ("gate_proj", "up_proj", "down_proj", "act_fn")
    if not all(hasattr(module, part) for part in parts):
        return None

    def forward(x: Tensor) -> Tensor:
        gate, up = module.gate_proj(x), module.up_proj(x)
        down: Tensor = module.down_proj(kernels.silu_mul(gate, up))
        return down

    return forward


def _rope_scopes(model: nn.Module) -> list[dict[str, Any]]:
    """Namespaces of the modelling files whose rotary embedding is the usual one (halves, whole head)."""
    names = {type(module).__module__ for module in model.modules() if type(module).__name__.endswith("Attention")}
    scopes = [vars(sys.modules[name]) for name in names]
    return [scope for scope in scopes if ROPE in scope and _is_usual(scope[ROPE], next(model.parameters()))]


def _is_usual(rope: Callable[..., Any], like: Tensor) -> bool:
    generator = torch.Generator(like.device).manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=like.device).to(like.dtype)

    query, key, cos, sin = random(2, 4, 3, 8), random(2, 2, 3, 8), random(2, 3, 8), random(2, 3, 8)
    try:
        expected = rope(query, key, cos, sin)
    except Exception:  # another signature: another rotation
        return False
    kernels.rotate(query, key, cos, sin)
    limit = TOLERANCE[like.dtype]
    return all(
        (ours.float() - own.float()).norm() <= limit * own.float().norm()
        for ours, own in zip((query, key), expected, strict=True)
    )


def _rotation(original: Callable[..., Any]) -> Callable[..., Any]:
    def rotate(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or cos.shape[-1] != query.shape[-1]:
            return original(query, key, cos, sin, *args, **kwargs)
        kernels.rotate(query, key, cos, sin)
        return query, key

    return rotate
