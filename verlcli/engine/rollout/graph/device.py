"""The decode loop on a GPU: one CUDA graph a step, from the last token to the next one; the host looks now and then."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.fused import FusedLayers
from verlcli.engine.kernels import decode_attention
from verlcli.engine.kernels import sampling as kernels
from verlcli.engine.rollout._base import Sampling
from verlcli.engine.rollout.graph.attention import rollout_attention
from verlcli.engine.rollout.graph.head import OutputHead
from verlcli.engine.rollout.graph.merged import MergedAdapters
from verlcli.engine.rollout.graph.pool import MOST_ROWS, Pool, Sequences
from verlcli.engine.rollout.graph.prefill import Prefill
from verlcli.engine.rollout.graph.sampling import filter_top
from verlcli.engine.rollout.stopping import StopStrings

LOOK_EVERY = 16  # steps between looks for finished rows: a look costs about a tenth of a step
SMALLEST_BATCH = 8
SMALL_CACHE = 0.1  # of the GPU's memory


class DeviceDecoder:
    """Generates for a list of prompts; holds the cache, the state and the graphs between calls.

    Args:
        batch_size: sequences generated at once; None: as many as memory takes.
        memory_fraction: of the GPU's memory, for the cache.
        host_share: share of the layers whose cache stands in pinned host memory, read over the bus.
    """

    takes_turns = True  # it generates `batch_size` sequences at once by itself, and others as they end

    def __init__(
        self,
        model: Any,
        *,
        eos_ids: Sequence[int],
        batch_size: int | None,
        memory_fraction: float,
        host_share: float,
    ) -> None:
        self._model = model
        self._device = next(model.parameters()).device
        self._eos = torch.tensor(list(eos_ids), dtype=torch.int32, device=self._device)
        self._eos_index = self._eos.long()
        self._batch_size = batch_size
        self._rows = 0  # generated at once; 0 before the cache is there
        self._fused = FusedLayers(model)
        self._merged = MergedAdapters(model)
        self._head = OutputHead(model)
        self._pool = Pool(model, memory_fraction=memory_fraction, host_share=host_share)
        self._state: Sequences | None = None
        self._graphs: dict[tuple[Any, ...], _Step] = {}
        self._graph_pool: Any = None

    def sleep(self) -> None:
        """Give the memory of cache and merged weights back; it stands where graphs expect it in the next call.

        Where memory cannot be lent it stays, if it is little, or goes and the graphs with it.
        """
        self._pool.give_back()
        self._merged.give_back()
        kept = self._pool.bytes + self._merged.bytes
        if kept > SMALL_CACHE * torch.cuda.get_device_properties(self._device).total_memory:
            self._forget()

    def shrink(self, sequences: int) -> bool:
        """Forget all that takes memory, and generate half as many sequences at once as in the call of `sequences` that
        failed; False where that was one."""
        rows = self._rows or min(sequences, self._batch_size or sequences, MOST_ROWS)
        self._forget()
        self._batch_size = max(1, rows // 2)
        self._pool.prefill_tokens = max(1, self._pool.prefill_tokens // 2)
        return rows > 1

    def _forget(self) -> None:
        self._forget_graphs()
        self._state = None
        self._pool.release()
        self._merged.release()
        torch.cuda.empty_cache()

    def _forget_graphs(self) -> None:
        """The memory they share goes with the last of them."""
        self._graphs.clear()
        self._graph_pool = None

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
        """See `EagerDecoder.run`."""
        self._rows = 0
        self._merged.refresh()
        width = int(limits.max())
        per_chunk = self._pool.prompts_at_once([len(p) for p in prompts], n, width)
        parts = []
        for start in range(0, len(prompts), per_chunk):
            chunk, bounds = prompts[start : start + per_chunk], limits[start * n : (start + per_chunk) * n]
            part = self._run(chunk, n, sampling, seed, first_id + start * n, bounds, stops)
            parts.append([nn.functional.pad(rows, (0, width - rows.shape[1])) for rows in part[:2]] + [part[2]])
        tokens, logprobs, lengths = (torch.cat(each) for each in zip(*parts, strict=True))
        return tokens, logprobs, lengths

    def _run(
        self,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        seed: int,
        first_id: int,
        limits: Tensor,
        stops: StopStrings | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        total, width = len(prompts) * n, int(limits.max())
        self._rows = 0
        self._rows = self._pool.reserve(
            [len(p) for p in prompts], total, width, self._batch_size, before_renewal=self._forget_graphs
        )
        state = self._sequences(total, width)
        state.start(prompts, n, limits, sampling, seed=seed, first_id=first_id)
        with rollout_attention(self._model), self._merged.active(), self._fused.active():
            last_hidden = Prefill(self._model, self._pool, tokens=self._pool.prefill_tokens).run(prompts)
            _Loop(self, state, prompts, n, sampling, limits, stops, self._rows, last_hidden).run()
        return (
            state.out_tokens[:total, :width].clone(),
            state.out_logprobs[:total, :width].clone(),
            state.counts[:total].long(),
        )

    def _sequences(self, total: int, width: int) -> Sequences:
        if self._state is None or not self._state.holds(total, width):
            self._forget_graphs()
            self._state = Sequences(total, width, self._eos, self._device)
        return self._state

    def first_tokens(self, state: Sequences, rows: Tensor, hidden: Tensor, source: Tensor, sampling: Sampling) -> None:
        """Draw the first token of the sequences `rows[B]` from `hidden[source[B]]` of their prompts."""
        used, index = source.unique(return_inverse=True)
        early = (state.integers[1] > 0).expand(len(used))
        logits = self._filtered(self._head(hidden[used]), early, sampling)
        kernels.sample(logits, index.to(torch.int32), state.view(rows))

    def _filtered(self, logits: Tensor, early: Tensor, sampling: Sampling) -> Tensor:
        """`logits[B, V]` with -inf outside of top-k and top-p; `early[B]` rows may not end yet."""
        if not _filters(sampling):
            return logits  # the kernel sees to end tokens
        # Before the filter, or it would keep end tokens alone where they are the likeliest.
        logits[:, self._eos_index] = logits[:, self._eos_index].masked_fill(early[:, None], float("-inf"))
        t = sampling.temperature  # the kernel divides by it again
        return filter_top(logits / t, top_k=sampling.top_k, top_p=sampling.top_p) * t

    def step(self, state: Sequences, batch: int, sampling: Sampling) -> _Step:
        """The graph of one step of `batch` rows."""
        key = (batch, (sampling.top_k, sampling.top_p, sampling.temperature) if _filters(sampling) else None)
        if key not in self._graphs:
            self._graphs[key] = _Step(batch, state, lambda s: self._forward(s, sampling), self)
        return self._graphs[key]

    def _forward(self, step: _Step, sampling: Sampling) -> None:
        kernels.next_inputs(step.view, step.tokens, step.positions)
        hidden = self._model.base_model(
            input_ids=step.tokens[:, None],
            position_ids=step.positions[:, None],
            use_cache=False,
            rollout_cache=step,
        ).last_hidden_state[:, 0]
        early = step.view.counts[step.rows] < step.view.integers[1]
        kernels.sample(self._filtered(self._head(hidden), early, sampling), step.source, step.view)

    @property
    def pool(self) -> Pool:
        return self._pool

    def capture(self, run: Callable[[], None]) -> torch.cuda.CUDAGraph:
        """`run` as a graph. It runs once before, so that kernels are compiled and libraries have their workspaces.

        Code that waits for the device cannot be captured; it fails in that first run, before a capture has begun.
        """
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), _no_waiting():
            run()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph_pool = self._graph_pool or torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._graph_pool):
            run()
        return graph


class _Step:
    """Static tensors of a batch size, and the graph over them. As a cache it serves the layers of one step."""

    def __init__(self, batch: int, state: Sequences, forward: Callable[[_Step], None], decoder: DeviceDecoder) -> None:
        device = state.counts.device
        self._pool = decoder.pool
        self.longest = state.longest
        self.batch = batch
        self.rows = torch.full((batch,), state.idle, dtype=torch.int32, device=device)
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.positions = torch.zeros(batch, dtype=torch.long, device=device)
        self.source = torch.arange(batch, dtype=torch.int32, device=device)
        self.view = state.view(self.rows)
        self._processors = torch.cuda.get_device_properties(device).multi_processor_count
        self.graph = decoder.capture(lambda: forward(self))

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """See `Cache.attend`."""
        splits = decode_attention.splits_for(self.batch, key.shape[1], self._processors)
        keys, values = self._pool.layer(layer)
        return decode_attention.attend(query, key, value, keys, values, self.view, scale=scale, splits=splits)


class _Loop:
    """One call: admits sequences to rows, replays, looks, drops finished rows, until all are done."""

    def __init__(
        self,
        decoder: DeviceDecoder,
        state: Sequences,
        prompts: Sequence[Sequence[int]],
        n: int,
        sampling: Sampling,
        limits: Tensor,
        stops: StopStrings | None,
        rows: int,
        last_hidden: Tensor,
    ) -> None:
        self._decoder, self._state, self._sampling, self._stops = decoder, state, sampling, stops
        self._limits = limits.tolist()
        self._n, self._rows, self._hidden = n, rows, last_hidden
        # Long prompts first: where rows are few, what may take longest starts earliest.
        self._waiting = sorted(range(len(prompts) * n), key=lambda s: -len(prompts[s // n]) - self._limits[s])[::-1]
        self._slot: dict[int, int] = {}  # sequence -> its place in the cache
        self._free = list(range(rows))[::-1]
        self._issued: dict[int, int] = {}  # tokens asked for so far, of sequences that may not be done

    def run(self) -> None:
        while self._waiting or self._issued:
            self._admit()
            if not self._issued:
                continue
            current = self._arranged()
            left = max(self._limits[s] - issued for s, issued in self._issued.items())
            steps = min(LOOK_EVERY, left)
            for _ in range(steps):
                current.graph.replay()
            for s in self._issued:
                self._issued[s] += steps
            self._look(left - steps)

    def _admit(self) -> None:
        new = []
        while self._waiting and self._free:
            sequence = self._waiting.pop()
            self._slot[sequence] = self._free.pop()
            self._issued[sequence] = 1
            new.append(sequence)
        if not new:
            return
        device = self._state.counts.device
        rows = torch.tensor(new, dtype=torch.int32, device=device)
        self._state.place(rows, [self._slot[s] for s in new], self._decoder.pool)
        chunk = 512  # logits in fp32 at once
        for start in range(0, len(new), chunk):
            source = torch.tensor([s // self._n for s in new[start : start + chunk]], device=device)
            part = rows[start : start + chunk].contiguous()
            self._decoder.first_tokens(self._state, part, self._hidden, source, self._sampling)
        for s in new:
            if self._limits[s] <= 1:
                self._finish(s)

    def _finish(self, sequence: int) -> None:
        del self._issued[sequence]
        self._free.append(self._slot.pop(sequence))

    def _look(self, left: int) -> None:
        """Find out who is done. Without end tokens in sight and all limits alike, that is known without asking."""
        if left <= 0:
            self._issued.clear()
            self._free = list(range(self._rows))[::-1]
            self._slot.clear()
        else:
            if self._stops is not None:
                self._stop()
            done = self._state.done.tolist()
            for s in [s for s in self._issued if done[s]]:
                self._finish(s)

    def _stop(self) -> None:
        assert self._stops is not None
        running = list(self._issued)
        index = torch.tensor(running, device=self._state.counts.device)
        counts = self._state.counts[index].tolist()
        for s, row, count in zip(running, self._state.out_tokens[index].tolist(), counts, strict=True):
            if self._stops.length(row[:count]) is not None:
                self._state.done[s] = 1

    def _arranged(self) -> _Step:
        """The step whose batch fits the living, its rows filled with them and else idle."""
        alive = list(self._issued)
        batch = _batch_for(len(alive), self._rows)
        step = self._decoder.step(self._state, batch, self._sampling)
        rows = alive + [self._state.idle] * (batch - len(alive))
        step.rows.copy_(torch.tensor(rows, dtype=torch.int32), non_blocking=True)
        return step


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Operations that wait for the device raise."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the mode says of itself that it is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _filters(sampling: Sampling) -> bool:
    return sampling.temperature > 0 and (sampling.top_k > 0 or sampling.top_p < 1)


def _batch_for(alive: int, most: int) -> int:
    """The smallest of a few batch sizes that takes `alive` rows: each size is a graph of its own."""
    size = SMALLEST_BATCH
    while size < alive:
        if size % 2 == 0 and size >= 32 and size * 3 // 2 >= alive:
            size = size * 3 // 2
            break
        size *= 2
    return min(size, most) if most >= alive else size
