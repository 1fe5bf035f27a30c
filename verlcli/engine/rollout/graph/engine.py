"""`GraphRollout`: prompts once for all their samples, then our own decode loop, with the trainer's weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verlcli.engine.batch import left_pad
from verlcli.engine.models import hugging_face
from verlcli.engine.rollout._base import Rollout, Sampling, diverged
from verlcli.engine.rollout.graph.eager import EagerDecoder
from verlcli.engine.rollout.graph.head import OutputHead
from verlcli.engine.rollout.stopping import StopStrings

if TYPE_CHECKING:
    from torch import nn


_Part = tuple[Tensor, Tensor, Tensor]


class GraphRollout:
    """Generates with the module that is trained.

    Args:
        model: a Hugging Face causal language model, or its PEFT wrapper; see `support.why_not` for which.
        eos_ids: tokens that end a response.
        batch_size: prompts times n generated at once; None: all that fit into memory.
        memory_fraction: share of the GPU's memory that the cache may take.
        host_share: share of the layers whose cache stands in host memory.
        decode: tokens to text; stop strings need it.
    """

    name = "graph"

    def __init__(
        self,
        model: nn.Module,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        batch_size: int | None = None,
        memory_fraction: float = 0.9,
        host_share: float = 0.0,
        decode: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        self._model: Any = hugging_face(model)
        self.eos_ids = tuple(eos_ids)
        self._pad_id = pad_id
        self._batch_size = batch_size
        self._decode = decode
        self._head = OutputHead(self._model)
        self._decoder: Any
        if next(model.parameters()).device.type == "cuda":
            from verlcli.engine.rollout.graph.device import DeviceDecoder

            self._decoder = DeviceDecoder(
                self._model,
                eos_ids=eos_ids,
                batch_size=batch_size,
                memory_fraction=memory_fraction,
                host_share=host_share,
            )
        else:
            self._decoder = EagerDecoder(self._model, eos_ids=eos_ids, pad_id=pad_id)

    def generate(
        self, prompts: Sequence[Sequence[int]], n: int, sampling: Sampling, *, lengths: Tensor | None = None
    ) -> Rollout:
        """Draw `n` responses for each prompt; see `RolloutEngine.generate`.

        `lengths[B]` lowers `sampling.max_tokens` for single sequences, which benchmarks use.
        """
        seed = int(torch.randint(2**63 - 1, ()))
        limits = torch.full((len(prompts) * n,), sampling.max_tokens) if lengths is None else lengths
        stops = StopStrings(self._decode, sampling.stop) if sampling.stop and self._decode else None
        parts = list[_Part]()
        for first, chunk, samples in self._chunks(prompts, n):
            part = self._decoder.run(
                chunk,
                samples,
                sampling,
                seed=seed,
                first_id=first,
                limits=limits[first : first + len(chunk) * samples],
                stops=stops,
            )
            parts.append(part)
        return self._assembled(prompts, n, parts, stops)

    def _chunks(self, prompts: Sequence[Sequence[int]], n: int) -> Iterator[tuple[int, Sequence[Sequence[int]], int]]:
        """(number of the first sequence, prompts, samples of each) of what is generated at once."""
        size = self._batch_size
        if size is None or self._decoder.takes_turns:
            yield 0, prompts, n
        elif size >= n:
            for start in range(0, len(prompts), size // n):
                yield start * n, prompts[start : start + size // n], n
        else:
            for i, prompt in enumerate(prompts):
                for start in range(0, n, size):
                    yield i * n + start, [prompt], min(size, n - start)

    def _assembled(
        self, prompts: Sequence[Sequence[int]], n: int, parts: list[Any], stops: StopStrings | None
    ) -> Rollout:
        width = max(int(lengths.max()) for _, _, lengths in parts)
        tokens = torch.cat([_to_width(tokens, width) for tokens, _, _ in parts])
        logprobs = torch.cat([_to_width(logprobs, width) for _, logprobs, _ in parts])
        lengths = torch.cat([each for _, _, each in parts])
        if stops is not None:
            rows = zip(tokens.tolist(), lengths.tolist(), strict=True)
            lengths = lengths.new_tensor([stops.length(row[:length]) or length for row, length in rows])
        mask = torch.arange(width, device=tokens.device) < lengths[:, None]
        ids, prompt_mask = left_pad([prompt for prompt in prompts for _ in range(n)], self._pad_id, tokens.device)
        if not logprobs[mask].isfinite().all():
            raise diverged()
        return Rollout(
            prompt_ids=ids,
            prompt_mask=prompt_mask,
            tokens=tokens.long().masked_fill(~mask, self._pad_id),
            logprobs=logprobs.masked_fill(~mask, 0.0),
            mask=mask,
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """`hidden[B, H]` of the model's body -> fp32 logits `[B, V]`, as generation computes them."""
        return self._head(hidden)

    def load_weights(self, stream: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing to do: this engine generates with the trainer's own module."""

    def shrink(self, sequences: int) -> bool:
        """See `RolloutEngine.shrink`."""
        if self._decoder.takes_turns:
            return bool(self._decoder.shrink(sequences))
        size = min(self._batch_size or sequences, sequences)
        self._batch_size = max(1, size // 2)
        return size > 1

    def sleep(self) -> None:
        """Give the memory of cache and merged adapters back."""
        self._decoder.sleep()

    def wake(self) -> None:
        """Nothing to do: the cache is made when it is needed."""


def _to_width(rows: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(rows[:, :width], (0, max(0, width - rows.shape[1])))
