"""Forward passes of a policy and a critic over a batch: packed where the model allows it, padded where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.algorithms import entropy_of, logprobs_of
from verlcli.engine.batch import Batch
from verlcli.engine.models import hugging_face
from verlcli.engine.packing import Packed
from verlcli.engine.training.linear_logprob import Head, linear_logprob

Forward = Callable[[Batch, "Packed | None"], Any]
"""From a batch, and the same batch packed where it shall run so, to what the role's loss function takes."""


def policy_forward(
    module: nn.Module,
    temperature: float,
    *,
    entropy_gradient: bool = False,
    chunk_bytes: int | None = None,
    kept_bytes: int = 0,
) -> Forward:
    """Forward pass of a policy: batch -> (logprobs `[B, R]`, entropy `[B, R]`) of the response at `temperature`.

    Passes without gradients want log-probs alone, so their entropy is None.
    The entropy carries a gradient only if asked to (entropy bonus). For `chunk_bytes` and `kept_bytes` see
    `linear_logprob`; they matter for packed batches.
    """

    def forward(batch: Batch, packed: Packed | None = None) -> tuple[Tensor, Tensor | None]:
        if packed is None:
            return _padded_policy(module, batch, temperature, entropy_gradient=entropy_gradient)
        model = hugging_face(module)
        hidden = model.base_model(**packed.model_inputs()).last_hidden_state[0].index_select(0, packed.predict)
        linear = model.get_output_embeddings()
        logprobs, entropy = linear_logprob(
            hidden,
            linear.weight,
            packed.targets,
            bias=linear.bias,
            head=head_of(model.config.get_text_config(), temperature),
            entropy=torch.is_grad_enabled(),
            entropy_gradient=entropy_gradient and torch.is_grad_enabled(),
            chunk_bytes=chunk_bytes,
            kept_bytes=kept_bytes,
        )
        return packed.scatter(logprobs), None if entropy is None else packed.scatter(entropy)

    return forward


def _padded_policy(
    module: nn.Module, batch: Batch, temperature: float, *, entropy_gradient: bool
) -> tuple[Tensor, Tensor | None]:
    width = batch.response_width
    logits = module(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=batch.position_ids,
        logits_to_keep=width + 1,
        use_cache=False,
    ).logits[:, -width - 1 : -1]
    logprobs = logprobs_of(logits, batch.responses, temperature=temperature)
    if not torch.is_grad_enabled():
        return logprobs, None
    with torch.set_grad_enabled(entropy_gradient):
        return logprobs, entropy_of(logits, temperature=temperature)


def value_forward(module: nn.Module) -> Forward:
    """Forward pass of a critic: batch -> values `[B, R]` of the states before each response token."""
    critic: Any = module

    def forward(batch: Batch, packed: Packed | None = None) -> Tensor:
        if packed is not None:
            hidden = critic.body(**packed.model_inputs())[0].index_select(0, packed.predict)
            return packed.scatter(critic.values(hidden))
        values: Tensor = critic(batch.input_ids, batch.attention_mask, batch.position_ids)
        return values[:, -batch.response_width - 1 : -1]

    return forward


def head_of(config: Any, temperature: float) -> Head:
    """What a model does to its logits, as its text config says: Gemma caps them, Granite divides, Cohere multiplies."""
    divisor = getattr(config, "logits_scaling", None) or 1.0
    factor = getattr(config, "logit_scale", None) or 1.0
    return Head(temperature, factor / divisor, getattr(config, "final_logit_softcapping", None))
