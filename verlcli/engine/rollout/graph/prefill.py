"""The prompts' pass: packed one after another, their keys and values into the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from verlcli.engine.attention import packed_attention
from verlcli.engine.rollout.graph.pool import Pool


class Prefill:
    """Runs prompts through the model in packs of at most `tokens`; as a cache it serves the layers of a pack."""

    def __init__(self, model: Any, pool: Pool, *, tokens: int) -> None:
        self._model = model
        self._tokens = tokens
        self._pool = pool
        self._at = 0
        self._bounds = torch.empty(0)
        self.longest = 0

    def run(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """`hidden[P, H]` of the prompts' last tokens."""
        device = next(self._model.parameters()).device
        parts = []
        for pack in _packs(prompts, self._tokens):
            lengths = torch.tensor([len(p) for p in pack])
            ends = lengths.cumsum(0)
            self._bounds = torch.cat([ends.new_zeros(1), ends]).to(device=device, dtype=torch.int32)
            self.longest = int(lengths.max())
            ids = torch.tensor([token for p in pack for token in p], device=device)
            positions = torch.cat([torch.arange(len(p)) for p in pack]).to(device)
            hidden = self._model.base_model(
                input_ids=ids[None], position_ids=positions[None], use_cache=False, rollout_cache=self
            ).last_hidden_state[0]
            parts.append(hidden[(ends - 1).to(device)])
            self._at += len(ids)
        return torch.cat(parts)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Cache.attend`: causal within each prompt."""
        for pool, new in zip(self._pool.layer(layer), (key, value), strict=True):
            pool[self._at : self._at + key.shape[2]].copy_(new[0].transpose(0, 1), non_blocking=True)
        return packed_attention(query, key, value, cu_seqlens=self._bounds, max_length=self.longest, scale=scale)


def _packs(prompts: Sequence[Sequence[int]], most: int) -> list[list[Sequence[int]]]:
    packs: list[list[Sequence[int]]] = [[]]
    size = 0
    for prompt in prompts:
        if packs[-1] and size + len(prompt) > most:
            packs.append([])
            size = 0
        packs[-1].append(prompt)
        size += len(prompt)
    return packs
