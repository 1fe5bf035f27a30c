"""Rewards: finished answers → one score each, a weighted sum of the configured functions."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any

from verlcli.config.types import RewardConfig
from verlcli.engine.rewards._base import (
    RewardError,
    RewardFunction,
    RewardInput,
    RewardOutcome,
    Scored,
    Scorer,
    read_result,
)
from verlcli.engine.rewards.builtin import BUILTIN_REWARDS
from verlcli.engine.rewards.python_file import FileScorer
from verlcli.errors import ConfigError, MissingDependencyError, TrainingFailedError

__all__ = ["BUILTIN_REWARDS", "RewardError", "RewardInput", "RewardOutcome", "Rewarder", "load_reward"]

_SEED_STRIDE = 1_000_003  # a prime: seeds of neighbouring batches share no sample's seed


class Rewarder:
    """Scores batches; hold it for the whole run and close it after."""

    def __init__(self, scorers: Sequence[Scorer], weights: Sequence[float], max_error_fraction: float) -> None:
        self._scorers = tuple(scorers)
        self._weights = tuple(weights)
        self._max_error_fraction = max_error_fraction

    @property
    def names(self) -> tuple[str, ...]:
        """The functions, as configured."""
        return tuple(scorer.name for scorer in self._scorers)

    def score(self, inputs: Sequence[RewardInput], *, seed: int) -> RewardOutcome:
        """Scores[B] of a batch. A sample that any function fails on scores 0 and is among the errors.

        With several functions each one's own score is in `extra` under `reward/NAME`, the first one's in `first`. When
        so many samples time out that `check` will stop the run, the rest are not waited for.

        Args:
            seed: of the random state that the functions see; the same seed gives the same scores.
        """
        outcome = RewardOutcome([], [], [])
        timeouts = 0
        for index, sample in enumerate(inputs):
            if self._too_many(timeouts, len(inputs)):
                scored = Scored(error="not scored: too many samples before it timed out")
            else:
                scored = self._score_one(sample, (seed * _SEED_STRIDE + index) % 2**32)
            timeouts += scored.timed_out
            outcome.scores.append(scored.value)
            outcome.first.append(scored.first)
            outcome.extra.append(dict(scored.extra))
            if scored.error is not None:
                outcome.errors.append(RewardError(index, scored.error))
        return outcome

    def _score_one(self, sample: RewardInput, seed: int) -> Scored:
        total = 0.0
        own: list[float] = []
        extra: dict[str, Any] = {}
        for scorer, weight in zip(self._scorers, self._weights, strict=True):
            scored = scorer.score(sample, seed)
            if scored.error is not None:
                return scored
            total += weight * scored.value
            own.append(scored.value)
            extra = {**scored.extra, **extra}
            if len(self._scorers) > 1:
                extra[f"reward/{scorer.name}"] = scored.value
        return Scored(total, extra, first=own[0])

    def check(self, outcome: RewardOutcome, batch_size: int) -> None:
        """Refuse to train on a batch with too many failures.

        Raises:
            TrainingFailedError: more than `reward.max_error_fraction` of the batch failed.
        """
        failed = len(outcome.errors)
        if not self._too_many(failed, batch_size):
            return
        first = outcome.errors[0]
        raise TrainingFailedError(
            f"the reward failed on {failed} of {batch_size} samples ({failed / batch_size:.1%}, the limit is "
            f"{self._max_error_fraction:.1%}); the first is sample {first.index}: {first.message}",
            where="reward.function",
            fix="correct the reward function, or raise reward.max_error_fraction or reward.timeout",
        )

    def _too_many(self, failed: int, batch_size: int) -> bool:
        # As a quotient: 0.07 * 100 is above 7.
        return failed > 0 and failed / batch_size > self._max_error_fraction

    def close(self) -> None:
        """End the functions' processes."""
        for scorer in self._scorers:
            scorer.close()

    def __enter__(self) -> Rewarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _BuiltinScorer:
    """A built-in function, called in place."""

    def __init__(self, name: str, function: RewardFunction) -> None:
        self.name = name
        self._function = function

    def score(self, sample: RewardInput, seed: int) -> Scored:
        return read_result(self._function(sample.data_source, sample.solution, sample.ground_truth, sample.extra_info))

    def close(self) -> None:
        pass


def load_reward(config: RewardConfig, *, log: Path | None = None) -> Rewarder:
    """The configured functions, loaded and checked.

    Args:
        log: file that the prints of the user's functions are appended to; None: stderr.

    Raises:
        ConfigError: an unknown built-in, a Python file that does not serve, or weights that do not match.
        MissingDependencyError: a built-in's package is absent.
    """
    if not config.function:
        names = ", ".join(BUILTIN_REWARDS)
        raise ConfigError("no reward", where="reward.function", fix=f"name one of {names}, or file.py:function")
    weights = config.weights if config.weights is not None else (1.0,) * len(config.function)
    if len(weights) != len(config.function):
        raise ConfigError(
            f"{len(weights)} weights for {len(config.function)} functions",
            where="reward.weights",
            fix="give one weight each",
        )
    scorers: list[Scorer] = []
    try:
        for spec in config.function:
            scorers.append(_scorer(spec, config.timeout, log))
    except BaseException:
        for scorer in scorers:
            scorer.close()
        raise
    return Rewarder(scorers, weights, config.max_error_fraction)


def _scorer(spec: str, timeout: float, log: Path | None) -> Scorer:
    if ".py" in spec:
        return FileScorer(spec, timeout, log=log)
    if spec not in BUILTIN_REWARDS:
        close = get_close_matches(spec, BUILTIN_REWARDS, n=1)
        raise ConfigError(
            f"unknown reward {spec!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
            where="reward.function",
            fix=f"use one of {', '.join(BUILTIN_REWARDS)}, or a Python file: file.py:function",
        )
    function = BUILTIN_REWARDS[spec]
    if not isinstance(function, str):
        return _BuiltinScorer(spec, function)
    if importlib.util.find_spec(spec) is None:
        raise MissingDependencyError(
            f"the reward {spec!r} needs the package {spec.replace('_', '-')}",
            where="reward.function",
            fix=f"pip install {spec.replace('_', '-')}",
        )
    return FileScorer(function, timeout, log=log, name=spec)
