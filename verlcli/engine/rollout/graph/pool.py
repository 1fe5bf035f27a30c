"""Where sequences live on the GPU: the pool of keys and values, and the state that the kernels read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from verlcli.engine.rollout._base import Sampling
from verlcli.engine.rollout.graph.lent import LentMemory, bytes_for
from verlcli.errors import DoesNotFitError

HEADROOM = 2**29  # bytes left for a step's temporaries beside its logits
PREFILL_TOKENS = 32768  # of the prompts that are read at once
MOST_ROWS = 1024


class Pool:
    """Keys and values a layer, `[N, Hkv, D]`: first the prompts' tokens one after another, then a slot a row."""

    def __init__(self, model: Any, *, memory_fraction: float, host_share: float) -> None:
        config = model.config.get_text_config()
        weight = next(model.parameters())
        self._layers: int = config.num_hidden_layers
        heads = config.num_attention_heads
        self._heads_kv: int = getattr(config, "num_key_value_heads", None) or heads
        self._depth: int = getattr(config, "head_dim", None) or config.hidden_size // heads
        self._dtype, self._device = weight.dtype, weight.device
        self._fraction = memory_fraction
        self._host_layers = math.ceil(host_share * self._layers)
        self._vocabulary: int = config.vocab_size
        # A layer of a pass holds: the stream, its norm and sum; query, keys, values, rotated and attended;
        # gate, up and their product.
        mlp = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        widths = 4 * config.hidden_size + 4 * (heads + self._heads_kv) * self._depth + 3 * mlp
        self._pass_bytes = self._dtype.itemsize * widths
        self.prefill_tokens = PREFILL_TOKENS
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._memory: LentMemory | None = None  # of the layers on the GPU
        self._tokens = 0
        self._prompt_tokens = 0
        self.slot_width = 0

    @property
    def bytes_per_token(self) -> int:
        """Of all layers, keys and values."""
        return int(2 * self._layers * self._heads_kv * self._depth * self._dtype.itemsize)

    @property
    def bytes(self) -> int:
        """Held on the GPU now."""
        return 0 if self._memory is None else self._memory.held

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """(keys, values) `[N, Hkv, D]`."""
        return self._keys[index], self._values[index]

    def give_back(self) -> None:
        """Let others have the GPU memory until the next `reserve`; the places in it stay."""
        if self._memory is not None:
            self._memory.give_back()

    def release(self) -> None:
        """Forget it all."""
        self._keys, self._values, self._memory, self._tokens = [], [], None, 0

    def _fitting_tokens(self, rows: int, prompt_tokens: int, *, headroom: int = HEADROOM) -> int:
        """Tokens that fit beside what is allocated, the pass over the prompts and the logits of `rows`, the pool's own
        counted as free; at most the fraction of the GPU."""
        total = torch.cuda.get_device_properties(self._device).total_memory
        free, _ = torch.cuda.mem_get_info(self._device)
        unused = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        on_device = max(1, self.bytes_per_token * (self._layers - self._host_layers) // self._layers)
        room = min(free + unused + self.bytes, int(self._fraction * total))
        work = max(min(prompt_tokens, self.prefill_tokens) * self._pass_bytes, 2 * 4 * rows * self._vocabulary)
        return int(max(0, room - headroom - work) // on_device)

    def prompts_at_once(self, lengths: Sequence[int], n: int, width: int) -> int:
        """How many of the prompts can stand in the pool together with a row or more.

        Raises:
            DoesNotFitError: not even one prompt and one response fit.
        """
        rows = min(len(lengths) * n, MOST_ROWS)
        fitting, longest = self._fitting_tokens(rows, sum(lengths)), max(lengths) + width
        if longest > fitting:
            self._refuse(longest, fitting)
        if sum(lengths) + len(lengths) * n * width <= fitting:
            return len(lengths)
        return max(1, min(len(lengths), min(fitting // 2, fitting - width) // max(lengths)))

    def _refuse(self, needed: int, fitting: int) -> None:
        gib = self.bytes_per_token / 2**30
        raise DoesNotFitError(
            f"a sequence of {needed} tokens needs {needed * gib:.1f} GiB of cache, {fitting * gib:.1f} are left",
            where="rollout.gpu_memory_utilization",
            fix="raise it, shorten data.max_response_length, or set rollout.cpu_offload: true",
        )

    def reserve(
        self,
        lengths: Sequence[int],
        sequences: int,
        width: int,
        batch_size: int | None,
        *,
        before_renewal: Callable[[], None],
    ) -> int:
        """Make room for the prompts, and for as many responses of `width` tokens as fit and are wanted: returns the
        rows. `before_renewal` is called before tensors are replaced.

        Raises:
            DoesNotFitError: not one response fits beside the prompts.
        """
        prompt_tokens = sum(lengths)
        most = min(sequences, batch_size or sequences, MOST_ROWS)
        # While it was lent, others may have come to stay, such as the optimizer's first moments. What is free varies a
        # little from step to step: that is no reason to lose the graphs.
        lent = self._tokens and self.bytes == 0
        if lent and self._fitting_tokens(most, prompt_tokens, headroom=HEADROOM // 2) < self._tokens:
            before_renewal()
            self.release()
        if prompt_tokens + most * width > self._tokens:
            fitting = self._fitting_tokens(most, prompt_tokens)
            rows = min(most, (fitting - prompt_tokens) // width)
            if rows < 1:
                self._refuse(prompt_tokens + width, fitting)
            wanted = prompt_tokens + rows * width
            if wanted > self._tokens:
                before_renewal()
                self.release()
                torch.cuda.empty_cache()
                # A little more, so that the next step's prompts, a bit longer, keep pool and graphs.
                self._tokens = max(wanted, min(wanted + prompt_tokens // 4, fitting))
                self._allocate()
        if self._memory is not None:
            self._memory.take()
        rows = min(most, (self._tokens - prompt_tokens) // width)
        self._prompt_tokens, self.slot_width = prompt_tokens, width
        return rows

    def _allocate(self) -> None:
        shape = (self._tokens + 1, self._heads_kv, self._depth)  # the last one is where idle rows write
        shapes = [shape] * (2 * (self._layers - self._host_layers))
        self._memory = LentMemory(bytes_for(list(shapes), self._dtype), self._device)
        on_host = [_pinned(shape, self._dtype) for _ in range(2 * self._host_layers)]
        tensors = [*on_host, *self._memory.split(list(shapes), self._dtype)]
        self._keys, self._values = tensors[::2], tensors[1::2]

    def slot_start(self, slot: int) -> int:
        """First token's place of a row's response."""
        return self._prompt_tokens + slot * self.slot_width

    @property
    def idle_place(self) -> int:
        return self._tokens


def _pinned(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    try:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    except RuntimeError as error:
        raise DoesNotFitError(
            f"the host cannot pin memory for its share of the cache: {str(error).splitlines()[0]}",
            where="rollout.cpu_offload_ratio",
            fix="lower it, or shorten data.max_response_length",
        ) from error


class Sequences:
    """State of N sequences and an idle one, in static tensors: rows of a step point into it."""

    def __init__(self, total: int, width: int, eos: Tensor, device: torch.device) -> None:
        self._capacity, self.width = total, width
        self.longest = 0

        def filled(dtype: torch.dtype) -> Tensor:
            return torch.zeros(total + 1, dtype=dtype, device=device)

        self.counts, self.done, self.limits = filled(torch.int32), filled(torch.int32), filled(torch.int32)
        self.prompt_len = filled(torch.int32)
        self.prompt_start, self.response_start = filled(torch.int64), filled(torch.int64)
        self.out_tokens = torch.zeros(total + 1, width, dtype=torch.int32, device=device)
        self.out_logprobs = torch.zeros(total + 1, width, dtype=torch.float32, device=device)
        self.floats = torch.zeros(2, dtype=torch.float32, device=device)
        self.integers = torch.zeros(3, dtype=torch.int64, device=device)
        self.eos = eos
        self.idle = total

    def holds(self, total: int, width: int) -> bool:
        return total <= self._capacity and width <= self.width

    def view(self, rows: Tensor) -> Any:
        """What the kernels read: these tensors with `rows`."""
        names = ("counts", "done", "limits", "prompt_len", "prompt_start", "response_start", "out_tokens")
        parts = {name: getattr(self, name) for name in names}
        return SimpleNamespace(
            rows=rows,
            **parts,
            out_logprobs=self.out_logprobs,
            floats=self.floats,
            integers=self.integers,
            eos=self.eos,
        )

    def start(
        self, prompts: Sequence[Sequence[int]], n: int, limits: Tensor, sampling: Sampling, *, seed: int, first_id: int
    ) -> None:
        """Forget all sequences and set up new ones."""
        lengths = torch.tensor([len(p) for p in prompts])
        starts = lengths.cumsum(0) - lengths
        total = len(prompts) * n
        self.counts.zero_()
        self.done.fill_(1)
        self.done[:total] = 0
        self.limits[:total] = limits.to(self.limits)
        self.prompt_len.zero_()
        self.prompt_len[:total] = lengths.repeat_interleave(n).to(self.prompt_len)
        self.prompt_start[:total] = starts.repeat_interleave(n).to(self.prompt_start)
        self.counts[self.idle] = 1  # its input is token 0 at position 0
        self.longest = int(lengths.max()) + int(limits.max())
        greedy = sampling.temperature == 0
        inverse = 1.0 if greedy else 1.0 / sampling.temperature
        self.floats.copy_(torch.tensor([inverse, float(greedy)]))
        self.integers.copy_(torch.tensor([seed, sampling.min_tokens, first_id]))

    def place(self, rows: Tensor, slots: Sequence[int], pool: Pool) -> None:
        """Give sequences their slots of the pool."""
        at = torch.tensor([pool.slot_start(slot) for slot in slots], device=rows.device)
        self.response_start[rows.long()] = at
        self.response_start[self.idle] = pool.idle_place
