"""The output head with its log-probabilities, whose logits exist a chunk at a time, and a critic's value head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GIB = 2**30
CHUNK_BYTES, SAVING_CHUNK_BYTES, CPU_CHUNK_BYTES = GIB, GIB // 2, 2**26  # of fp32 logits, as the trainer sets them
CPU_KEPT_BYTES = 2**28
KEPT_SHARE = 1 / 64
# Without a GPU's kernels torch computes statistics and gradients in steps: logits, probabilities, their logarithms,
# and a mask of a quarter of a number.
CPU_COPIES = 3.25


MOST_CHUNKS = 1000  # looked at


@dataclass(frozen=True, slots=True)
class HeadRun:
    """The output head over the predicted tokens of a micro batch.

    Attributes:
        width: bytes of a number of its weight.
        trained: its weight gets a gradient.
        chunk_bytes: of fp32 logits at once.
        kept_bytes: room for probabilities from the forward to the backward pass.
        copies: fp32 tensors of a chunk's size at once.
    """

    tokens: int
    hidden: int
    vocabulary: int
    width: int
    trained: bool
    chunk_bytes: int
    kept_bytes: int
    copies: float

    def saved(self) -> int:
        """Bytes kept for the backward pass besides probabilities: hidden states, statistics and what they become."""
        return self.tokens * (self.hidden * self.width + 4 * 5)

    def chunk(self) -> int:
        """Bytes of the logits that exist at once."""
        return max(map(self._logits, self._chunks()), default=0)

    def forward(self) -> int:
        """Most bytes of logits and probabilities in the forward pass."""
        done, most = 0, 0
        kept = self._probabilities()
        for i, rows in enumerate(self._chunks()):
            done += kept[i] if i < len(kept) else 0
            most = max(most, done + self._logits(rows))
        return most

    def backward(self) -> int:
        """Most bytes in the backward pass, the weight's gradient included, which is summed in fp32."""
        kept, total = self._probabilities(), self.tokens * self.hidden * self.width
        total += 4 * self.vocabulary * self.hidden if self.trained else 0
        most = total + self.gradient()
        left = sum(kept)
        for i, rows in enumerate(self._chunks()):
            d = rows * self.vocabulary * self.width
            most = max(most, total + left + (0 if i < len(kept) else self._logits(rows) + d))
            left -= kept[i] if i < len(kept) else 0
        return most

    def gradient(self) -> int:
        """Bytes of the weight's gradient as it is handed on."""
        return self.vocabulary * self.hidden * self.width if self.trained else 0

    def _logits(self, rows: int) -> int:
        return int(self.copies * 4 * rows * self.vocabulary)

    def _chunks(self) -> Iterator[int]:
        rows = max(1, self.chunk_bytes // (4 * self.vocabulary))
        rows = rows // 128 * 128 or rows
        # Those after the first are alike once no more probabilities are kept.
        for start in range(0, min(self.tokens, MOST_CHUNKS * rows), rows):
            yield min(rows, self.tokens - start)

    def _probabilities(self) -> list[int]:
        room, kept = self.kept_bytes, list[int]()
        for rows in self._chunks():
            room -= rows * self.vocabulary * self.width
            if room < 0:
                break
            kept.append(rows * self.vocabulary * self.width)
        return kept


@dataclass(frozen=True, slots=True)
class ValueHead:
    """A critic's linear value head, in fp32 over the predicted tokens; the same questions as to `HeadRun`."""

    tokens: int
    hidden: int
    width: int  # bytes of a number of the body

    def saved(self) -> int:
        return self.tokens * 4 * (self.hidden + 2)

    def forward(self) -> int:
        return self.tokens * self.hidden * self.width

    def backward(self) -> int:
        return self.tokens * self.hidden * (4 + self.width)

    def gradient(self) -> int:
        return 0


def chunk_and_kept(*, saving: bool, gpu_bytes: int | None) -> tuple[int, int]:
    """The trainer's (chunk, kept) bytes on a GPU of that size, or on a CPU (None); `saving` where it recomputes."""
    if gpu_bytes is None:
        return CPU_CHUNK_BYTES, 0 if saving else CPU_KEPT_BYTES
    return (SAVING_CHUNK_BYTES, 0) if saving else (CHUNK_BYTES, int(gpu_bytes * KEPT_SHARE))
