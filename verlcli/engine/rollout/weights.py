"""The trainer's weights as a stream for rollout engines that keep a copy of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verlcli.engine.models import hugging_face

if TYPE_CHECKING:
    from torch import nn


def policy_weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Names as in a checkpoint, and tensors, of the trainer's module; nothing is copied but what has to change.

    A PEFT module's LoRA is merged a tensor at a time, W + (alpha / r) B A (arXiv:2106.09685, eq. 3), in fp32 and
    rounded to W's dtype; the module itself stays as it is.
    """
    base = hugging_face(module)
    if getattr(base, "_weight_conversions", None) == []:  # the checkpoint held what the module holds
        yield from _merged(base)
        return
    # Other models, of experts above all, hold their checkpoint's tensors in another form.
    from transformers.core_model_loading import revert_weight_conversion

    yield from revert_weight_conversion(base, dict(_merged(base))).items()


def _merged(base: Any) -> Iterator[tuple[str, Tensor]]:
    adapted = {name: layer for name, layer in base.named_modules() if hasattr(layer, "get_delta_weight")}
    for name, parameter in base.named_parameters():
        if name.partition(".lora_")[0] in adapted:
            continue
        owner, inside, leaf = name.partition(".base_layer.")
        if inside and leaf == "weight" and owner in adapted:
            yield f"{owner}.weight", merged_weight(adapted[owner], parameter.detach())
        else:
            yield (f"{owner}.{leaf}" if inside else name), parameter.detach()


@torch.no_grad()
def merged_weight(layer: Any, weight: Tensor) -> Tensor:
    """`weight` with the active LoRA adapters of PEFT's `layer` merged in."""
    if layer.disable_adapters:
        return weight
    total = weight.float()
    for adapter in layer.active_adapters:
        total = total + layer.get_delta_weight(adapter).float()
    return total.to(weight.dtype)
