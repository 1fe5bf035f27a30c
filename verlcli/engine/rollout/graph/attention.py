"""The attention function of the rollout: transformers hands each layer's query, key and value to the running cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor, nn

from verlcli.engine.attention import attention

NAME = "verlcli_rollout"


class UnsupportedModelError(Exception):
    """The model's attention does what this engine does not: the message says what."""


class Cache(Protocol):
    """Keys and values of the sequences that are being generated."""

    longest: int  # tokens a sequence can have, prompt and response

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """`query[B, H, T, D]`, `key`, `value` `[B, Hkv, T, D]` of the new tokens -> `[B, T, H, D]`; they are kept."""
        ...


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    rollout_cache: Cache,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    if sliding_window is not None and sliding_window < rollout_cache.longest:
        raise UnsupportedModelError(f"its attention slides over {sliding_window} tokens")
    for name in ("softcap", "s_aux"):
        if others.get(name) is not None:
            raise UnsupportedModelError(f"its attention has {name}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: Any = module.layer_idx
    return rollout_cache.attend(layer, query, key, value, scale), None


@contextmanager
def rollout_attention(model: nn.Module) -> Iterator[None]:
    """Switch `model` to this attention function, and back."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)
    with attention(model, NAME):
        yield
