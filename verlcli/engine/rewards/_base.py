"""What goes into a reward and what comes out of it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

RewardFunction = Callable[..., Any]  # verl's compute_score(data_source, solution_str, ground_truth, extra_info=None)


@dataclass(frozen=True, slots=True)
class RewardInput:
    """One finished answer and what is known about its problem."""

    data_source: str
    solution: str  # the decoded answer, without the prompt and without special tokens
    ground_truth: str
    extra_info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RewardError:
    """Why one sample of a batch has no score; its score is 0."""

    index: int  # of the sample in its batch
    message: str  # `reward.py:12: ZeroDivisionError: division by zero`


@dataclass(frozen=True, slots=True)
class RewardOutcome:
    """Scores of a batch, in its order."""

    scores: list[float]  # [B]
    errors: list[RewardError]  # at most one a sample
    extra: list[dict[str, Any]]  # [B], what the functions returned beside the score; of equal keys the first one's
    first: list[float] = field(default_factory=list)  # [B], the first function's own score, unweighted; 0 on error


@dataclass(frozen=True, slots=True)
class Scored:
    """What one function says about one sample."""

    value: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)
    first: float = 0.0  # of several functions' sum: the first one's own score
    error: str | None = None
    timed_out: bool = False


class Scorer(Protocol):
    """One reward function, wherever it runs."""

    @property
    def name(self) -> str: ...

    def score(self, sample: RewardInput, seed: int) -> Scored: ...

    def close(self) -> None: ...


def read_result(result: Any) -> Scored:
    """A function's result, a number or a dict with "score" and more, as a score; an error when it is neither."""
    value, extra = result, {}
    if isinstance(result, Mapping):
        if "score" not in result:
            return Scored(error=f"returned a dict without 'score'; it has {', '.join(map(str, result)) or 'no keys'}")
        value, extra = result["score"], {str(key): _plain(item) for key, item in result.items() if key != "score"}
    value = _plain(value)
    if isinstance(value, complex) or not isinstance(value, numbers.Number):
        return Scored(
            error=f"returned {_short(value)} ({type(value).__name__}), wanted a number or a dict with 'score'"
        )
    value = float(value)  # type: ignore[arg-type]
    if not math.isfinite(value):
        return Scored(error=f"returned {value}, wanted a finite number")
    return Scored(value, extra, first=value)


def _plain(value: Any) -> Any:
    """numpy's and torch's scalars as Python's; anything else as it is."""
    if isinstance(value, numbers.Number) or not hasattr(value, "item"):
        return value
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", None)
    return value.item() if size == 1 else value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
