"""How the trainer's LoRA goes into vLLM: as an adapter beside the base weights, nothing merged."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from verlcli.engine.models import hugging_face
from verlcli.engine.rollout._vllm_start import first_line
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from torch import nn

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # of vLLM's `LoRAConfig.max_lora_rank`
WITH_GRAPH = "set rollout.name: graph, which generates with the trainer's own module"


class VllmAdapter:
    """The LoRA of `model` as the one adapter of a vLLM that was started with `adapter_arguments`."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        # A number is never used twice: vLLM skips work for one that it knows, and its warm-up has the first.
        self._numbers = itertools.count(2)
        self.request: Any = None  # the `LoRARequest` of the newest adapter

    def load(self, llm: Any) -> None:
        """Give the trainer's adapter to `llm`, in place of the one before; after a wake too, which brings none back.

        Raises:
            ConfigError: vLLM cannot adapt a layer that the trainer adapts.
        """
        from vllm.lora.request import LoRARequest

        number = next(self._numbers)
        # vLLM reads adapters from folders alone; what it read stays in its own memory.
        with tempfile.TemporaryDirectory(prefix="verlcli-adapter-") as folder:
            write_adapter(self._model, folder)
            self.request = LoRARequest(f"policy-{number}", number, folder)
            try:
                llm.llm_engine.add_lora(self.request)
            except ValueError as error:
                raise _refused(f"vLLM does not take this adapter: {first_line(error)}") from error
        left_out = llm.apply_model(lambda model: layers_left_out(model.lora_manager, number))[0]
        if left_out:
            raise _refused(f"vLLM cannot adapt {len(left_out)} of this model's layers, {left_out[0]} the first")

    @contextmanager
    def taken_off(self, llm: Any) -> Iterator[None]:
        """The model of `llm` has its base weights under their own names, as a reload of them needs."""
        from vllm.lora.layers import BaseLayerWithLoRA

        put_back: list[Any] = llm.apply_model(lambda model: unwrap(model, BaseLayerWithLoRA))[0]
        try:
            yield
        finally:
            for parent, name, wrapper in put_back:
                setattr(parent, name, wrapper)


def adapter_arguments(model: nn.Module, dtype: str) -> dict[str, Any]:
    """Arguments of `vllm.LLM` for the LoRA of `model`; none where it has no LoRA.

    Raises:
        ConfigError: a rank or a `dtype` that vLLM has no kernels for.
    """
    layers = {name: each for name, each in hugging_face(model).named_modules() if hasattr(each, "lora_A")}
    if not layers:
        return {}
    rank = max(r for layer in layers.values() for r in layer.r.values())
    if rank > RANKS[-1]:
        raise ConfigError(
            f"vLLM takes LoRA ranks up to {RANKS[-1]}, {rank} is asked for",
            where="model.lora_rank",
            fix=f"set model.lora_rank to {RANKS[-1]} or less, or {WITH_GRAPH}",
        )
    if dtype == "float32":
        raise ConfigError(
            "vLLM computes LoRA in bfloat16 or float16, the policy is in float32",
            where="model.dtype",
            fix=f"set model.dtype: bf16, or {WITH_GRAPH}",
        )
    return {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": next(each for each in RANKS if each >= rank),
        # All other layers then cost neither memory nor time.
        "lora_target_modules": sorted({name.rpartition(".")[2] for name in layers}),
        # Every request has the adapter, so graphs without one would be captured for nothing.
        "compilation_config": {"cudagraph_specialize_lora": False},
    }


def write_adapter(model: Any, folder: str) -> None:
    """The adapter of `model`, a PEFT wrapper, in PEFT's own format."""
    # Adapters never resize the vocabulary; peft would look for the base's config to find out.
    model.save_pretrained(folder, save_embedding_layers=False)


def layers_left_out(manager: Any, number: int) -> list[str]:
    """Layers that adapter `number` changes and vLLM's `LoRAModelManager` does not: vLLM passes them over in silence."""
    return sorted(manager.get_adapter(number).loras.keys() - manager.modules.keys())


def unwrap(model: nn.Module, wrapper: type) -> list[tuple[nn.Module, str, nn.Module]]:
    """Put each `wrapper`'s `base_layer` in its place in `model`; what was there, as (parent, name, wrapper)."""
    taken = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, wrapper)
    ]
    for parent, name, child in taken:
        setattr(parent, name, child.base_layer)
    return taken


def _refused(message: str) -> ConfigError:
    return ConfigError(message, where="model.lora_target_modules", fix=WITH_GRAPH)
