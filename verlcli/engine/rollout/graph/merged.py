"""LoRA for the rollout: each adapted layer generates with one merged weight beside the trainer's two parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from verlcli.engine.rollout.graph.lent import LentMemory, bytes_for
from verlcli.engine.rollout.weights import merged_weight


class MergedAdapters:
    """Merged weights of `model`'s adapted linear layers, W + (alpha / r) B A (arXiv:2106.09685), in W's dtype.

    The trainer's own weights stay as they are: taking a merged adapter out again would leave rounding errors in them.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers: list[Any] = [m for m in model.modules() if hasattr(m, "get_delta_weight") and _is_linear(m)]
        self._weights: list[Tensor] = []
        self._memory: LentMemory | None = None

    def refresh(self) -> None:
        """Merge again, into the same storage, which graphs may point to."""
        if not self._layers:
            return
        if self._memory is None:
            like = self._layers[0].base_layer.weight
            shapes = [tuple(layer.base_layer.weight.shape) for layer in self._layers]
            memory = LentMemory(bytes_for(shapes, like.dtype), like.device)
            # Both at once: memory may not suffice for the tensors.
            self._weights, self._memory = memory.split(shapes, like.dtype), memory
        self._memory.take()
        for layer, merged in zip(self._layers, self._weights, strict=True):
            merged.copy_(merged_weight(layer, layer.base_layer.weight.detach()))

    @property
    def bytes(self) -> int:
        """Held on the GPU now."""
        return 0 if self._memory is None else self._memory.held

    def give_back(self) -> None:
        """Let others have the memory until the next `refresh`."""
        if self._memory is not None:
            self._memory.give_back()
            if not self._weights[0].is_cuda:  # no graph points to them
                self.release()

    def release(self) -> None:
        """Forget it all."""
        self._memory, self._weights = None, []

    @contextmanager
    def active(self) -> Iterator[None]:
        """Adapted layers use their merged weight."""
        for layer, merged in zip(self._layers, self._weights, strict=True):
            layer.forward = _linear(merged, layer.base_layer.bias)
        try:
            yield
        finally:
            for layer in self._layers:
                del layer.forward


def _is_linear(layer: Any) -> bool:
    return isinstance(getattr(layer, "base_layer", None), nn.Linear)


def _linear(weight: Tensor, bias: Tensor | None) -> Any:
    return lambda x, *args, **kwargs: nn.functional.linear(x, weight, bias)
