"""What the logits say about the sampled tokens: log-probability and entropy, in fp32 and a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 2**26  # logits upcast at once: 256 MiB in fp32


def logprobs_of(logits: Tensor, tokens: Tensor, *, temperature: float = 1.0) -> Tensor:
    """`logits[B, T, V]`, `tokens[B, T]` -> `logprobs[B, T]` in fp32: z_token - logsumexp(z), z = logits / temperature.

    `logits[:, t]` must be those that predict `tokens[:, t]`: shift before the call. Use the temperature of the rollout,
    so that policy and sampler are the same distribution.
    """
    return _by_chunks(lambda z, token: _logprobs(z, token, temperature), logits, tokens)


def entropy_of(logits: Tensor, *, temperature: float = 1.0) -> Tensor:
    """`logits[B, T, V]` -> `entropy[B, T]` in fp32 and nats: logsumexp(z) - sum(softmax(z) z), z as above."""
    nothing = logits.new_zeros(logits.shape[:2])
    return _by_chunks(lambda z, _: _entropy(z, temperature), logits, nothing)


def _logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> Tensor:
    z = logits.float() / temperature
    return z.gather(-1, tokens[:, None]).squeeze(-1) - z.logsumexp(-1)


def _entropy(logits: Tensor, temperature: float) -> Tensor:
    z = logits.float() / temperature
    return z.logsumexp(-1) - (z.softmax(-1) * z).sum(-1)


def _by_chunks(function: Callable[[Tensor, Tensor], Tensor], logits: Tensor, other: Tensor) -> Tensor:
    """`function(logits[N, V], other[N]) -> result[N]` over `logits[B, T, V]`, `other[B, T]` -> `result[B, T]`."""
    rows = max(1, CHUNK_ELEMENTS // logits.shape[-1])
    chunks = list(zip(torch.split(logits.flatten(0, 1), rows), torch.split(other.flatten(), rows), strict=True))
    if len(chunks) <= 1:
        return function(logits.flatten(0, 1), other.flatten()).view(other.shape)
    # Recomputed in the backward pass: else every chunk's fp32 copy would be kept until then.
    return torch.cat(
        [checkpoint(function, *chunk, use_reentrant=False, preserve_rng_state=False) for chunk in chunks]
    ).view(other.shape)
