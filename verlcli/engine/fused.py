"""Small layers of a Hugging Face decoder as one kernel each, in generation and training; each is checked before use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.kernels import gated, norm, rotary

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}  # relative, of one layer's results
ROPE = "apply_rotary_pos_emb"


class FusedLayers:
    """Which layers of `model`, on a GPU, a kernel replaces. Only replacements that give the layer's own result, and
    its own gradients where they are trained, are kept.

    Attributes:
        complete: all norms, gated MLPs and rotary embeddings of the model are replaced.
    """

    def __init__(self, model: nn.Module) -> None:
        self._forwards: list[tuple[Any, Callable[..., Tensor]]] = []
        self._checked: dict[tuple[Any, ...], bool] = {}
        left = 0
        for module in model.modules():
            for kind, candidate in (("RMSNorm", _norm), ("MLP", _mlp)):
                forward = candidate(module)
                if forward is not None and self._agrees(module, forward):
                    self._forwards.append((module, forward))
                elif type(module).__name__.endswith(kind):
                    left += 1
        attentions = {
            type(module).__module__ for module in model.modules() if type(module).__name__.endswith("Attention")
        }
        like = next(model.parameters())
        scopes = [vars(sys.modules[name]) for name in attentions]
        self._scopes = [scope for scope in scopes if ROPE in scope and _is_usual(scope[ROPE], like)]
        self.complete = left == 0 and bool(self._forwards) and len(self._scopes) == len(attentions)

    def _agrees(self, module: Any, forward: Callable[..., Tensor]) -> bool:
        """One check of all modules that are alike."""
        weights = list(module.parameters())
        own_kind = (type(module), _eps(module), type(getattr(module, "act_fn", None)))
        key = (*own_kind, *((each.shape, each.dtype, each.requires_grad) for each in weights))
        if key not in self._checked:
            like, limit = weights[0], TOLERANCE[weights[0].dtype]
            x = _random(like, 4, 3, like.shape[-1])
            trained = [each for each in weights if each.requires_grad]
            own, ours = (_attempt(run, [x], trained) for run in (module, forward))
            self._checked[key] = _all_near(ours, own, limit)
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
    eps = _eps(module)
    if eps is None:
        return None

    def forward(hidden_states: Tensor) -> Tensor:
        if hidden_states.dtype != module.weight.dtype:  # the layer's own result has another dtype
            out: Tensor = type(module).forward(module, hidden_states)
            return out
        return norm.rms_norm(hidden_states, module.weight, eps)

    return forward


def _eps(module: Any) -> Any:
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


def _mlp(module: Any) -> Callable[..., Tensor] | None:
    parts = ("gate_proj", "up_proj", "down_proj", "act_fn")
    if not all(hasattr(module, part) for part in parts):
        return None

    def forward(x: Tensor) -> Tensor:
        gate, up = module.gate_proj(x), module.up_proj(x)
        down: Any = module.down_proj
        plain: bool = type(down) is nn.Linear and "forward" not in vars(down)
        if plain and getattr(down, "bias", None) is None:
            return gated.silu_mul_linear(gate, up, down.weight)
        out: Tensor = down(gated.silu_mul(gate, up))  # adapted by LoRA, or with a bias
        return out

    return forward


def _is_usual(rope: Callable[..., Any], like: Tensor) -> bool:
    """Whether a rotary embedding is the one of the kernel: halves, whole head."""
    query, key = _random(like, 2, 4, 3, 8), _random(like, 2, 2, 3, 8, seed=2)
    cos, sin = _random(like, 2, 3, 8, seed=3), _random(like, 2, 3, 8, seed=4)
    # Out of place, with gradients, and then in place.
    own, ours = (
        _attempt(lambda q, k, rotate=run: torch.cat(rotate(q, k, cos, sin), 1), [query, key], [])
        for run in (rope, rotary.rotate)
    )
    if not _all_near(ours, own, TOLERANCE[like.dtype]) or own is None:
        return False
    with torch.no_grad():
        in_place = torch.cat(rotary.rotate(query.clone(), key.clone(), cos, sin), 1)
    return _all_near([in_place], own[:1], TOLERANCE[like.dtype])


def _attempt(run: Any, inputs: Sequence[Tensor], trained: Sequence[Tensor]) -> list[Tensor] | None:
    """See `_results`; None where a foreign layer does not take what the usual one takes."""
    try:
        return _results(run, inputs, trained)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return None


def _random(like: Tensor, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator(like.device).manual_seed(seed)
    return torch.randn(*shape, generator=generator, device=like.device).to(like.dtype)


@torch.enable_grad()
def _results(run: Callable[..., Tensor], inputs: Sequence[Tensor], trained: Sequence[Tensor]) -> list[Tensor]:
    """`run(*inputs)` and the gradients, for a random direction, of the inputs and of the weights that are trained.

    Along x itself a norm's gradient is nothing but rounding.
    """
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = run(*inputs)
    return [out.detach(), *torch.autograd.grad(out, [*inputs, *trained], _random(out, *out.shape, seed=1))]


def _all_near(ours: list[Tensor] | None, own: list[Tensor] | None, limit: float) -> bool:
    if ours is None or own is None:
        return False
    pairs = [(a.float(), b.float()) for a, b in zip(ours, own, strict=True)]
    return all(bool((a - b).norm() <= limit * b.norm()) for a, b in pairs)


def _rotation(original: Callable[..., Any]) -> Callable[..., Any]:
    def rotate(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or cos.shape[-1] != query.shape[-1]:
            return original(query, key, cos, sin, *args, **kwargs)
        return rotary.rotate(query, key, cos, sin)

    return rotate
