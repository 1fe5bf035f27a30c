"""How token losses become one number: the four averages, and the divisors of a whole mini batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

LossAggMode = Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]


@dataclass(frozen=True, slots=True)
class Totals:
    """The divisors of a whole mini batch, over all its micro batches and ranks.

    Losses divided by these add up: the sum over micro batches is the mini batch's loss, however it was split.

    Attributes:
        tokens: response tokens with mask 1.
        sequences: sequences with at least one such token.
        max_tokens: the constant length that `seq-mean-token-sum-norm` divides by; `data.max_response_length`.
        seen: the tokens among them that pass through the model, the divisor of `share`; None: all.
    """

    tokens: int
    sequences: int
    max_tokens: int
    seen: int | None = None

    @classmethod
    def of(cls, mask: Tensor, *, max_tokens: int | None = None) -> Totals:
        """Count `mask[B, T]` of a whole mini batch; `max_tokens` defaults to T."""
        on = mask.bool()
        return cls(int(on.sum()), int(on.any(dim=1).sum()), max_tokens or mask.shape[1])


def aggregate(losses: Tensor, mask: Tensor, mode: LossAggMode, totals: Totals) -> Tensor:
    """`losses[B, T]`, `mask[B, T]` of one micro batch -> scalar, its share of the mini batch's loss.

    With l_it a token's loss, n_i a sequence's tokens, N and S the totals of tokens and sequences:
    token-mean sum(l_it) / N (DAPO, arXiv:2503.14476); seq-mean-token-sum sum(l_it) / S;
    seq-mean-token-mean sum_i(sum_t(l_it) / n_i) / S (GRPO, arXiv:2402.03300);
    seq-mean-token-sum-norm sum(l_it) / (S * max_tokens) (Dr. GRPO, arXiv:2503.20783).
    """
    mask = mask.bool()
    losses = torch.where(mask, losses, 0.0)
    sequences = max(totals.sequences, 1)
    if mode == "token-mean":
        return losses.sum() / max(totals.tokens, 1)
    if mode == "seq-mean-token-sum":
        return losses.sum() / sequences
    if mode == "seq-mean-token-mean":
        return (losses.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).sum() / sequences
    if mode == "seq-mean-token-sum-norm":
        return losses.sum() / (sequences * max(totals.max_tokens, 1))
    raise ValueError(f"unknown loss_agg_mode {mode!r}; choose one of {', '.join(get_args(LossAggMode))}")


def share(values: Tensor, mask: Tensor, totals: Totals) -> Tensor:
    """`values[B, T]`, `mask[B, T]` of one micro batch -> scalar: its part of the mean over tokens seen, detached."""
    tokens = totals.tokens if totals.seen is None else totals.seen
    return torch.where(mask.bool(), values.detach().float(), 0.0).sum() / max(tokens, 1)
