"""The decode loop without graphs: any device, torch alone. What one CPU core runs best: one contiguous cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.batch import left_pad
from verlcli.engine.rollout._base import Sampling
from verlcli.engine.rollout.graph.attention import rollout_attention
from verlcli.engine.rollout.graph.head import OutputHead
from verlcli.engine.rollout.graph.merged import MergedAdapters
from verlcli.engine.rollout.graph.sampling import NEG, draw, scale_and_filter
from verlcli.engine.rollout.stopping import StopStrings

LOOK_EVERY = 8  # steps between looks for finished rows
KEEP_ABOVE = 0.8  # share of rows alive above which dropping the others costs more than it saves


class EagerCache:
    """Left-padded keys and values `[B, Hkv, W + R, D]` a layer; every row writes at the same column."""

    def __init__(self, layers: int, padding: Tensor, room: int) -> None:
        """`padding[P, W]` is True on the prompts' padding; `room` is for new tokens."""
        self._keys: list[Tensor] = [torch.empty(0)] * layers
        self._values: list[Tensor] = [torch.empty(0)] * layers
        self._room = room
        self.longest = padding.shape[1] + room
        self.column = 0
        ragged = bool(padding.any())
        # Of a row that is all padding at a column nobody asks; the rest sees itself, so no row is all -inf.
        self._padding = padding if ragged else None
        self._bias: Tensor | None = None

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Cache.attend`."""
        if self.column == 0:
            self._keys[layer], self._values[layer] = key, value
            return self._prefill(query, key, value, scale)
        keys, values = self._keys[layer], self._values[layer]
        stop = self.column + 1
        keys[:, :, self.column] = key[:, :, 0]
        values[:, :, self.column] = value[:, :, 0]
        batch, heads, _, width = query.shape
        # Queries of one key head side by side: a plain matrix product, where SDPA with grouped heads has a slow path.
        grouped = (query * scale).view(batch, keys.shape[1], -1, width)
        scores = grouped @ keys[:, :, :stop].transpose(-1, -2)
        if self._bias is not None:
            scores = scores + self._bias[:, None, None, :stop]
        return (scores.softmax(-1) @ values[:, :, :stop]).view(batch, 1, heads, width)

    def _prefill(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        group = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(group, 1) if group > 1 else x for x in (key, value))
        mask = None
        if self._padding is not None:
            length = query.shape[2]
            causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
            # A padded query sees itself, so that its softmax is defined.
            seen = causal & (~self._padding[:, None, :] | torch.eye(length, dtype=torch.bool, device=query.device))
            mask = seen[:, None]
        out = nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale
        )
        return out.transpose(1, 2)

    def spread(self, n: int) -> None:
        """After the prompts: n rows of each, with room for their responses."""
        self.column = self._keys[0].shape[2]
        for tensors in (self._keys, self._values):
            for layer, prompt in enumerate(tensors):
                rows, heads, width, depth = prompt.shape
                room = prompt.new_empty(rows, n, heads, width + self._room, depth)
                room[..., :width, :] = prompt[:, None]
                tensors[layer] = room.flatten(0, 1)
        if self._padding is not None:
            padding = self._padding.repeat_interleave(n, 0)
            self._bias = torch.zeros(padding.shape[0], self.longest, device=padding.device, dtype=self._keys[0].dtype)
            self._bias[:, : padding.shape[1]].masked_fill_(padding, NEG)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        stop = self.column + 1
        for tensors in (self._keys, self._values):
            for layer, old in enumerate(tensors):
                kept = old.new_empty(len(rows), *old.shape[1:])
                kept[:, :, :stop] = old[rows, :, :stop]
                tensors[layer] = kept
        if self._bias is not None:
            self._bias = self._bias[rows]


class EagerDecoder:
    """Generates for a list of prompts in one batch."""

    takes_turns = False

    def __init__(self, model: Any, *, eos_ids: Sequence[int], pad_id: int) -> None:
        self._model = model
        self._eos_ids = tuple(eos_ids)
        self._pad_id = pad_id
        self._merged = MergedAdapters(model)
        self._head = OutputHead(model)

    @torch.no_grad()
    def run(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        *,
        seed: int,
        first_id: int,
        limits: Tensor,
        stops: StopStrings | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """n responses a prompt -> (tokens `[B, R]`, log-probs `[B, R]`, lengths `[B]`), in order.

        Args:
            first_id: number of the first sequence, which its noise depends on.
            limits: tokens each sequence may have, `[B]`.
        """
        device = next(self._model.parameters()).device
        batch = _Batch(limits.to(device), self._eos_ids, self._pad_id, sampling, seed=seed, first_id=first_id)
        ids, mask = left_pad(prompts, self._pad_id, device)
        layers = self._model.config.get_text_config().num_hidden_layers
        cache = EagerCache(layers, mask == 0, batch.width)
        self._merged.refresh()
        with rollout_attention(self._model), self._merged.active():
            logits = self._logits(ids, (mask.cumsum(-1) - 1).clamp_min(0), cache).repeat_interleave(n, 0)
            cache.spread(n)
            position = mask.sum(-1).repeat_interleave(n)
            while True:
                batch.draw(logits)
                if batch.step == batch.width:
                    break
                if batch.step % LOOK_EVERY == 1:
                    kept = batch.living(stops)
                    if len(kept) == 0:
                        break
                    if len(kept) <= KEEP_ABOVE * len(batch.rows):
                        cache.keep(kept)
                        batch.keep(kept)
                        position = position[kept]
                logits = self._logits(batch.drawn[:, None], position[:, None], cache)
                cache.column += 1
                position = position + 1
        return batch.tokens, batch.logprobs, batch.lengths

    def sleep(self) -> None:
        """Nothing is held between calls but merged adapters."""
        self._merged.give_back()

    def _logits(self, ids: Tensor, positions: Tensor, cache: EagerCache) -> Tensor:
        """`[B, V]` of the last column."""
        hidden = self._model.base_model(
            input_ids=ids, position_ids=positions, use_cache=False, rollout_cache=cache
        ).last_hidden_state
        return self._head(hidden[:, -1])


class _Batch:
    """What has been drawn: of all sequences, and which of them are still being generated, one a row."""

    def __init__(
        self,
        limits: Tensor,
        eos_ids: Sequence[int],
        pad_id: int,
        sampling: Sampling,
        *,
        seed: int,
        first_id: int,
    ) -> None:
        device, total = limits.device, len(limits)
        self._limits, self._sampling, self._seed, self._first_id = limits, sampling, seed, first_id
        self._eos = torch.tensor(eos_ids, device=device)
        self.width = int(limits.max())
        self.tokens = torch.full((total, self.width), pad_id, device=device)
        self.logprobs = torch.zeros(total, self.width, device=device)
        self.lengths = torch.zeros(total, dtype=torch.long, device=device)
        self.rows = torch.arange(total, device=device)
        self.drawn = self.rows
        self._alive = torch.ones(total, dtype=torch.bool, device=device)
        self.step = 0

    def draw(self, logits: Tensor) -> None:
        """The next token of every row; those of rows that are done are not kept."""
        sampling = self._sampling
        if self.step < sampling.min_tokens:
            logits = logits.index_fill(-1, self._eos, NEG)
        index = self.rows.new_full((1,), self.step)
        greedy = sampling.temperature == 0
        z = scale_and_filter(logits, sampling)
        self.drawn, logprobs = draw(z, self.rows + self._first_id, index, seed=self._seed, greedy=greedy)
        at = self.rows[self._alive]
        self.tokens[at, self.step] = self.drawn[self._alive]
        self.logprobs[at, self.step] = logprobs[self._alive]
        self.step += 1
        self.lengths[at] = self.step
        self._alive &= ~torch.isin(self.drawn, self._eos) & (self.step < self._limits[self.rows])

    def living(self, stops: StopStrings | None) -> Tensor:
        """Which rows go on."""
        if stops is not None:
            texts = self.tokens[self.rows, : self.step].tolist()
            open_ended = [stops.length(tokens) is None for tokens in texts]
            self._alive &= torch.tensor(open_ended, device=self._alive.device)
        return self._alive.nonzero().squeeze(-1)

    def keep(self, kept: Tensor) -> None:
        """Drop all rows but these."""
        self.rows, self.drawn, self._alive = self.rows[kept], self.drawn[kept], self._alive[kept]
