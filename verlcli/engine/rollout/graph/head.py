"""The model's output head in generation: the same logits as the trainer's, in fp32."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from verlcli.engine.training.forwards import head_of
from verlcli.engine.training.linear_logprob import scaled_logits


class OutputHead:
    """`hidden[B, H]` -> fp32 logits `[B, V]`, with the cap or factor that the model puts on them."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._head = head_of(model.config.get_text_config(), temperature=1.0)

    def __call__(self, hidden: Tensor) -> Tensor:
        linear = self._model.get_output_embeddings()
        weight: Tensor = linear.weight
        if weight.is_cuda and weight.dtype != torch.float32:
            logits = torch.mm(hidden, weight.t(), out_dtype=torch.float32)
        else:
            logits = (hidden @ weight.t()).float()
        if linear.bias is not None:
            logits = logits + linear.bias.float()
        return scaled_logits(logits, self._head)
