"""`Batch`: the tensors of one training step, from rollout to update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """B sequences: prompts left-padded to P tokens, then responses right-padded to R tokens.

    `R`-wide tensors belong to response tokens; padding is 0 and masked.
    """

    input_ids: Tensor  # [B, P + R] int64
    attention_mask: Tensor  # [B, P + R] int64, 1 on real tokens
    response_mask: Tensor  # [B, R] bool, up to and including EOS
    groups: Tensor  # [B] int64, index of the prompt in the step
    rollout_logprobs: Tensor | None = None  # [B, R], of the sampling distribution
    rewards: Tensor | None = None  # [B]
    scores: Tensor | None = None  # [B], what the rewards said, before a penalty for length
    old_logprobs: Tensor | None = None  # [B, R]
    ref_logprobs: Tensor | None = None  # [B, R]
    values: Tensor | None = None  # [B, R]
    advantages: Tensor | None = None  # [B, R]
    returns: Tensor | None = None  # [B, R]

    def __len__(self) -> int:
        return self.input_ids.shape[0]

    @property
    def response_width(self) -> int:
        return self.response_mask.shape[1]

    @property
    def responses(self) -> Tensor:
        """Response tokens `[B, R]`."""
        return self.input_ids[:, -self.response_width :]

    @property
    def position_ids(self) -> Tensor:
        """Positions `[B, P + R]` that start at 0 on the first real token."""
        return (self.attention_mask.cumsum(-1) - 1).clamp_min(0)

    def with_(self, **tensors: Tensor) -> Batch:
        """A copy with some tensors set."""
        return replace(self, **tensors)

    def rows(self, start: int, stop: int) -> Batch:
        """Rows `start:stop`, cut to the longest prompt and response among them."""
        return self._cut(slice(start, stop))

    def select(self, rows: Tensor) -> Batch:
        """The rows of these numbers in this order, cut to the longest prompt and response among them."""
        return self._cut(rows.to(self.input_ids.device))

    def halves(self) -> list[Batch]:
        """The batch in two, or as it is where it has one row."""
        return [self] if len(self) < 2 else self.split((len(self) + 1) // 2)

    def _cut(self, rows: slice | Tensor) -> Batch:
        mask = self.attention_mask[rows]
        prompt_width = mask.shape[1] - self.response_width
        # Prompts are left-padded and responses right-padded, so both cuts drop padding only.
        left = prompt_width - int(mask[:, :prompt_width].sum(-1).max())
        keep = max(1, int(self.response_mask[rows].sum(-1).max()))
        cut: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None or value.dim() == 1:
                cut[field.name] = None if value is None else value[rows]
            elif value.shape[1] == self.response_width and field.name not in ("input_ids", "attention_mask"):
                cut[field.name] = value[rows, :keep]
            else:
                cut[field.name] = value[rows, left : prompt_width + keep]
        return Batch(**cut)

    def split(self, size: int) -> list[Batch]:
        """Consecutive micro batches of `size` rows; the last may be smaller."""
        return [self.rows(i, min(i + size, len(self))) for i in range(0, len(self), size)]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that are set, contiguous on the CPU, for saving."""
        named = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value.detach().cpu().contiguous() for name, value in named if value is not None}


def left_pad(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Token rows of different lengths to `(ids[B, P], mask[B, P])`, padded on the left."""
    width = max(len(row) for row in rows)
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, width - len(row) :] = torch.tensor(row, dtype=torch.long)
        mask[i, width - len(row) :] = 1
    return ids.to(device), mask.to(device)
