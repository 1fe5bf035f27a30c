"""Small layers of a Hugging Face decoder as one kernel each, in generation and training; each is checked before use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.kernels import layers as kernels

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}  # relative, of one layer's results
ROPE = "apply_rotary_pos_emb"
_PLAIN = (nn.Linear,)  # what subclasses do, a kernel would leave out


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
        """One check a class, shape and set of trained weights: the layers of a decoder are alike."""
        weights = list(module.parameters())
        key = (type(module), *((each.shape, each.dtype, each.requires_grad) for each in weights))
        if key not in self._checked:
            like, limit = weights[0], TOLERANCE[weights[0].dtype]
            x = _random(like, 4, 3, like.shape[-1])
            trained = [each for each in weights if each.requires_grad]
            own, ours = _results(module, x, trained), _results(forward, x, trained)
            self._checked[key] = all(_near(a, b, limit) for a, b in zip(ours, own, strict=True))
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
        down: Any = module.down_proj
        if type(down) in _PLAIN and down.bias is None and "forward" not in vars(down):
            return kernels.silu_mul_linear(gate, up, down.weight)
        out: Tensor = down(kernels.silu_mul(gate, up))  # adapted by LoRA, or with a bias
        return out

    return forward


def _is_usual(rope: Callable[..., Any], like: Tensor) -> bool:
    """Whether a rotary embedding is the one of the kernel: halves, whole head."""
    query, key = _random(like, 2, 4, 3, 8), _random(like, 2, 2, 3, 8)
    cos, sin = _random(like, 2, 3, 8), _random(like, 2, 3, 8)
    limit = TOLERANCE[like.dtype]
    try:
        # Out of place, with gradients, and then in place.
        own = _results(lambda x: torch.cat(rope(x, key, cos, sin), 1), query, [])
        ours = _results(lambda x: torch.cat(kernels.rotate(x, key, cos, sin), 1), query, [])
        with torch.no_grad():
            in_place = torch.cat(kernels.rotate(query.clone(), key.clone(), cos, sin), 1)
    except Exception:  # another signature: another rotation
        return False
    return all(_near(a, b, limit) for a, b in zip([*ours, in_place], [*own, own[0]], strict=True))


def _random(like: Tensor, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator(like.device).manual_seed(seed)
    return torch.randn(*shape, generator=generator, device=like.device).to(like.dtype)


@torch.enable_grad()
def _results(run: Callable[[Tensor], Tensor], x: Tensor, trained: Sequence[Tensor]) -> list[Tensor]:
    """`run(x)` and the gradients, for a random direction, of x and of the weights that are trained.

    Along x itself a norm's gradient is nothing but rounding.
    """
    x = x.detach().requires_grad_()
    out = run(x)
    return [out.detach(), *torch.autograd.grad(out, [x, *trained], _random(out, *out.shape, seed=1))]


def _near(ours: Tensor, own: Tensor, limit: float) -> bool:
    ours, own = ours.float(), own.float()
    return bool((ours - own).norm() <= limit * own.norm())


def _rotation(original: Callable[..., Any]) -> Callable[..., Any]:
    def rotate(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs or cos.shape[-1] != query.shape[-1]:
            return original(query, key, cos, sin, *args, **kwargs)
        return kernels.rotate(query, key, cos, sin)

    return rotate
