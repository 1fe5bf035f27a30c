"""Sampling in torch, for the loop without kernels: the same distribution, log-probabilities and noise by sequence."""

from __future__ import annotations

import torch
from torch import Tensor

from verlcli.engine.rollout._base import Sampling

NEG = float("-inf")


def scale_and_filter(logits: Tensor, sampling: Sampling) -> Tensor:
    """`logits[B, V]` -> fp32 logits of the distribution that is sampled: temperature, then top-k, then top-p."""
    z = logits.float()
    if sampling.temperature == 0:
        return z
    if sampling.temperature != 1:
        z = z / sampling.temperature
    return filter_top(z, top_k=sampling.top_k, top_p=sampling.top_p)


def filter_top(z: Tensor, *, top_k: int, top_p: float) -> Tensor:
    """`z[B, V]` with -inf outside the top k tokens and outside the smallest set of probability `top_p` (nucleus,
    arXiv:1904.09751; the token that crosses it stays in). Ties at the k-th place stay in."""
    if 0 < top_k < z.shape[-1]:
        z = z.masked_fill(z < z.topk(top_k, dim=-1).values[:, -1:], NEG)
    if top_p < 1.0:
        ordered, order = z.sort(dim=-1, descending=True)
        probability = ordered.softmax(-1)
        outside = probability.cumsum(-1) - probability >= top_p
        z = z.masked_fill(torch.zeros_like(outside).scatter(-1, order, outside), NEG)
    return z


def draw(z: Tensor, sequences: Tensor, index: Tensor, *, seed: int, greedy: bool) -> tuple[Tensor, Tensor]:
    """`z[B, V]` -> (tokens `[B]`, their log-probabilities `[B]`).

    Inverse transform sampling from a uniform number that is a function of (seed, `sequences[B]`, `index[B]` of the
    token in its response) alone, so batching does not change what is drawn.
    """
    logsumexp = z.logsumexp(-1)
    if greedy:
        tokens = z.argmax(-1)
    else:
        reached = (z - logsumexp[:, None]).exp().double().cumsum(-1)
        target = uniform(seed, sequences, index) * reached[:, -1]
        tokens = torch.searchsorted(reached, target[:, None], right=True).squeeze(-1).clamp_max(z.shape[-1] - 1)
    return tokens, z.gather(-1, tokens[:, None]).squeeze(-1) - logsumexp


def uniform(seed: int, sequences: Tensor, index: Tensor) -> Tensor:
    """Uniform numbers in (0, 1), float64 `[B]`: splitmix64's finalizer over the seed, the sequence and the index."""
    x = _mix(_mix(_mix(sequences.long() ^ _signed(seed)) ^ index.long()))
    return ((x >> 11) & 0x1FFFFFFFFFFFFF).double() * 2.0**-53 + 2.0**-54


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _mix(x: Tensor) -> Tensor:
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return x ^ ((x >> 31) & 0x1FFFFFFFF)
