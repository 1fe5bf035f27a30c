"""The trainer's weights for rollout engines: as a stream without LoRA, and layer by layer with it merged in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verlcli.engine.models import hugging_face

if TYPE_CHECKING:
    from torch import nn


def base_weights(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Names as in a checkpoint, and tensors, of the trainer's module without its LoRA; copied where they differ."""
    base = hugging_face(module)
    if getattr(base, "_weight_conversions", None) == []:  # the checkpoint held what the module holds
        yield from _plain(base)
        return
    # Other models, of experts above all, hold their checkpoint's tensors in another form.
    from transformers.core_model_loading import revert_weight_conversion

    yield from revert_weight_conversion(base, dict(_plain(base))).items()


def _plain(base: Any) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in base.named_parameters():
        if ".lora_" not in name:
            yield name.replace(".base_layer.", "."), parameter.detach()


@torch.no_grad()
def merged_weight(layer: Any, weight: Tensor) -> Tensor:
    """W + (alpha / r) B A (arXiv:2106.09685, eq. 3) of PEFT's `layer`, summed in fp32 and rounded to W's dtype."""
    if layer.disable_adapters:
        return weight
    total = weight.float()
    for adapter in layer.active_adapters:
        total = total + layer.get_delta_weight(adapter).float()
    return total.to(weight.dtype)
