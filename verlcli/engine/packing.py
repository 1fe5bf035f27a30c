"""From rows of a `Batch` to micro batches of equal work, and to sequences packed without padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from verlcli.engine.batch import Batch


@dataclass(frozen=True, slots=True)
class PackedRows:
    """B sequences of T tokens in all, one after another."""

    input_ids: Tensor  # [1, T]
    position_ids: Tensor  # [1, T], from 0 in each sequence
    cu_seqlens: Tensor  # [B + 1] int32, where each starts, and T
    max_length: int  # at least the longest; a power of two, so that few values reach compiled code

    def model_inputs(self) -> dict[str, Any]:
        """Arguments of a Hugging Face model's body under `verlcli.engine.attention.attention`."""
        return {
            "input_ids": self.input_ids,
            "position_ids": self.position_ids,
            "use_cache": False,
            "cu_seq_lens_q": self.cu_seqlens,
            "cu_seq_lens_k": self.cu_seqlens,
            "max_length_q": self.max_length,
            "max_length_k": self.max_length,
        }


@dataclass(frozen=True, slots=True)
class Packed(PackedRows):
    """The sequences of a batch; N of their tokens are responses' and are predicted."""

    predict: Tensor  # [N], the tokens whose hidden state predicts a response token
    targets: Tensor  # [N], the tokens that they predict
    slots: Tensor  # [N], the predicted tokens' places in [B * R]
    shape: tuple[int, int]  # (B, R)

    def scatter(self, values: Tensor) -> Tensor:
        """`values[N]` of the response tokens -> `[B, R]`, 0 elsewhere; differentiable."""
        rows, width = self.shape
        return values.new_zeros(rows * width).index_put((self.slots,), values).view(rows, width)


def pack(batch: Batch) -> Packed:
    """Drop all padding of `batch`. Waits for the device once, for the lengths."""
    device = batch.input_ids.device
    width = batch.response_width
    before = batch.input_ids.shape[1] - width
    real = torch.stack([batch.attention_mask[:, :before].sum(-1), batch.response_mask.sum(-1)]).cpu()
    prompts, responses = real[0], real[1]
    lengths = prompts + responses
    ends = lengths.cumsum(0)
    starts = ends - lengths
    rows = torch.arange(len(lengths))
    row = rows.repeat_interleave(lengths)
    positions = torch.arange(int(ends[-1])) - starts[row]
    taken = row * batch.input_ids.shape[1] + before - prompts[row] + positions
    of_response = rows.repeat_interleave(responses)
    places = torch.arange(int(responses.sum())) - (responses.cumsum(0) - responses)[of_response]
    # A response's first token is predicted by its prompt's last.
    predict = starts[of_response] + prompts[of_response] + places - 1
    moved = [x.to(device, non_blocking=True) for x in (taken, positions, predict, of_response * width + places)]
    ids = batch.input_ids.flatten()[moved[0]]
    bounds = torch.cat([ends.new_zeros(1), ends]).to(torch.int32)
    return Packed(
        input_ids=ids[None],
        position_ids=moved[1][None],
        cu_seqlens=bounds.to(device, non_blocking=True),
        max_length=_power_of_two(int(lengths.max())),
        predict=moved[2],
        targets=ids[moved[2] + 1],
        slots=moved[3],
        shape=(len(lengths), width),
    )


def pack_rows(rows: Sequence[Sequence[int]], device: torch.device) -> PackedRows:
    """Token rows, each of one token or more, as packed sequences on `device`."""
    lengths = torch.tensor([len(row) for row in rows])
    bounds = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    ids = torch.tensor([token for row in rows for token in row])
    positions = torch.arange(len(ids)) - bounds[:-1].repeat_interleave(lengths)
    return PackedRows(
        input_ids=ids.to(device, non_blocking=True)[None],
        position_ids=positions.to(device, non_blocking=True)[None],
        cu_seqlens=bounds.to(torch.int32).to(device, non_blocking=True),
        max_length=_power_of_two(int(lengths.max())),
    )


def _power_of_two(length: int) -> int:
    """The least that is `length` or more, from 2 up."""
    return 1 << math.ceil(math.log2(max(2, length)))


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of a forward pass over s tokens: `linear * s + quadratic * s^2` FLOPs (causal attention)."""

    linear: float
    quadratic: float

    def of(self, tokens: int) -> float:
        """Of one sequence."""
        return self.linear * tokens + self.quadratic * tokens * tokens

    @classmethod
    def of_model(cls, config: Any) -> Cost:
        """Of one decoder layer of a Hugging Face text config.

        2 FLOPs a weight and token: q, k, v and output projections and a gated MLP; 2 s^2 n_h d for scores and
        weighted values, half of each masked.
        """
        hidden, heads = config.hidden_size, config.num_attention_heads
        head = getattr(config, "head_dim", None) or hidden // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        inner = getattr(config, "intermediate_size", None) or 4 * hidden
        weights = hidden * (2 * heads * head + 2 * kv_heads * head + 3 * inner)
        return cls(2.0 * weights, 2.0 * heads * head)


class MicroBatches(list[Batch]):
    """Micro batches, and the rows of the mini batch that each has.

    Attributes:
        order: row numbers in the order in which the micro batches hold them, None for 0, 1, 2, ...
    """

    def __init__(self, parts: Sequence[Batch], order: Tensor | None = None) -> None:
        super().__init__(parts)
        self.order = order

    def restore(self, rows: Tensor) -> Tensor:
        """`rows[B, ...]` of all micro batches one under the other -> the mini batch's order."""
        if self.order is None:
            return rows
        restored = torch.empty_like(rows)
        restored[self.order.to(rows.device)] = rows
        return restored


def by_tokens(batch: Batch, budget: int, cost: Cost) -> MicroBatches:
    """Micro batches of at most `budget` real tokens each (a longer sequence is alone), of about equal work."""
    lengths = batch.attention_mask.sum(-1).tolist()
    groups = balance(lengths, budget, cost)
    order = torch.tensor([row for group in groups for row in group])
    parts = [batch.select(torch.tensor(group)) for group in groups]
    return MicroBatches(parts, None if order.equal(torch.arange(len(order))) else order)


def balance(lengths: Sequence[int], budget: int, cost: Cost) -> list[list[int]]:
    """Numbers of all sequences in as few groups of at most `budget` tokens as the greedy rule finds.

    Longest first onto the group of least work that has room (LPT, Graham 1969); numbers in a group ascend.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    least = max(1, math.ceil(sum(min(n, budget) for n in lengths) / budget))
    groups = _spread(order, lengths, budget, cost, least)
    if len(groups) > least:
        # Groups that were opened late hold the short sequences alone: with all from the start the work is even.
        even = _spread(order, lengths, budget, cost, len(groups))
        groups = groups if len(even) > len(groups) else even
    return sorted(sorted(group) for group in groups)


def _spread(order: Sequence[int], lengths: Sequence[int], budget: int, cost: Cost, number: int) -> list[list[int]]:
    """`number` groups, and another wherever none has room; those that stay empty are left out."""
    groups: list[list[int]] = [[] for _ in lengths]
    room = torch.full((len(lengths),), math.inf, dtype=torch.float64)  # without a sequence a group takes any
    work = torch.zeros(len(lengths), dtype=torch.float64)
    for i in order:
        fits = room[:number] >= lengths[i]
        lightest = int(torch.where(fits, work[:number], math.inf).argmin())
        if not fits[lightest]:
            lightest, number = number, number + 1
        groups[lightest].append(i)
        room[lightest] = room[lightest].clamp(max=budget) - lengths[i]
        work[lightest] += cost.of(lengths[i])
    return [group for group in groups if group]
