"""Rules about batch sizes."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.algorithms import ALGORITHMS
from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config

_MINI, _TRAIN = "training.ppo_mini_batch_size", "data.train_batch_size"


def mini_batch_fits(config: Config) -> Iterator[Verdict]:
    """VRL101: a mini batch is larger than the training batch.

    Why: a mini batch is a part of the training batch: ppo_mini_batch_size prompts are taken from
        train_batch_size.
    Example: `data: {train_batch_size: 64}` with `training: {ppo_mini_batch_size: 256}`
    Instead: a mini batch of at most 64, or a larger training batch
    """
    mini, train = config.training.ppo_mini_batch_size, config.data.train_batch_size
    if mini is not None and mini > train:
        yield Verdict(
            "VRL101",
            (_MINI, _TRAIN),
            f"a mini batch of {mini} prompts is larger than the {train} prompts of {_TRAIN}",
            f"lower it to {train}, or raise {_TRAIN} to {mini}",
        )


def mini_batch_divides(config: Config) -> Iterator[Verdict]:
    """VRL102: mini batches do not make up the training batch.

    Why: all updates of a step are made on mini batches of equal size; a rest has no place.
    Example: `data: {train_batch_size: 100}` with `training: {ppo_mini_batch_size: 30}`
    Instead: 25 or 50
    """
    mini, train = config.training.ppo_mini_batch_size, config.data.train_batch_size
    if mini is not None and mini <= train and train % mini:
        below = next(size for size in range(mini, 0, -1) if train % size == 0)
        above = next(size for size in range(mini, train + 1) if train % size == 0)
        yield Verdict(
            "VRL102",
            (_MINI, _TRAIN),
            f"{train} prompts of {_TRAIN} do not divide into mini batches of {mini}; {train % mini} are left over",
            f"nearest values that divide it: {below} and {above}",
        )


def group_has_company(config: Config) -> Iterator[Verdict]:
    """VRL103: an algorithm that compares the samples of one prompt, with one sample a prompt.

    Why: the advantage of GRPO and its kin is the distance to the other samples; a lone one would keep its reward as it
        is, without a baseline.
    Example: `algorithm: {name: grpo}` with `rollout: {n: 1}`
    Instead: `rollout: {n: 8}`
    Source: DeepSeekMath (arXiv 2402.03300), section 4.1
    """
    name = config.algorithm.name
    if ALGORITHMS[name].is_grouped and config.rollout.n == 1:
        yield Verdict(
            "VRL103",
            ("rollout.n", "algorithm.name"),
            f"{name} compares the samples of one prompt; with rollout.n = 1 there is nothing to compare",
            "raise rollout.n to 4 or more, or set algorithm.name: ppo",
        )
