"""Stop strings: the token at which a response completes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class StopStrings:
    """Finds where a response completes one of `stop`.

    Args:
        decode: token ids to text.
        stop: strings; a response ends with the token that completes the first of them.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], stop: Sequence[str]) -> None:
        self._decode = decode
        self._stop = tuple(stop)

    def length(self, tokens: Sequence[int]) -> int | None:
        """Number of tokens up to and including the one that completes a stop string; None where there is none."""
        if not self._has(tokens):
            return None
        low, high = 1, len(tokens)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._has(tokens[:middle]) else (middle + 1, high)
        return low

    def _has(self, tokens: Sequence[int]) -> bool:
        text = self._decode(tokens)
        return any(each in text for each in self._stop)
