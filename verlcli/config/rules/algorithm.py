"""Rules about the algorithm, its clipping and the KL term."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.algorithms import ALGORITHMS
from verlcli.config.keys import default_at, schema_at
from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config
from verlcli.config.wording import shown


def clip_range_said_once(config: Config) -> Iterator[Verdict]:
    """VRL110: clip_ratio beside both of its bounds.

    Why: clip_ratio_low and clip_ratio_high replace it, so it has no effect.
    Example: `algorithm: {clip_ratio: 0.3, clip_ratio_low: 0.2, clip_ratio_high: 0.28}`
    Instead: remove clip_ratio
    """
    algorithm = config.algorithm
    low, high = algorithm.clip_ratio_low, algorithm.clip_ratio_high
    default = default_at(schema_at(("algorithm", "clip_ratio")) or {})
    if low is not None and high is not None and algorithm.clip_ratio not in (default, low, high):
        yield Verdict(
            "VRL110",
            ("algorithm.clip_ratio", "algorithm.clip_ratio_low", "algorithm.clip_ratio_high"),
            f"{algorithm.clip_ratio} has no effect: clip_ratio_low and clip_ratio_high are both set",
            "remove it",
            "warning",
        )


def clip_bounds_ordered(config: Config) -> Iterator[Verdict]:
    """VRL111: the ratio is clipped wider below than above.

    Why: clip-higher (a wider upper bound) is what DAPO advises; the other way round is nearly always a swap.
    Example: `algorithm: {clip_ratio_low: 0.28, clip_ratio_high: 0.2}`
    Instead: `algorithm: {clip_ratio_low: 0.2, clip_ratio_high: 0.28}`
    Source: DAPO (arXiv 2503.14476), section 3.1
    """
    algorithm = config.algorithm
    if algorithm.policy_loss == "cispo":
        return  # its lower bound is off on purpose
    low = algorithm.clip_ratio if algorithm.clip_ratio_low is None else algorithm.clip_ratio_low
    high = algorithm.clip_ratio if algorithm.clip_ratio_high is None else algorithm.clip_ratio_high
    if low > high:
        yield Verdict(
            "VRL111",
            ("algorithm.clip_ratio_low", "algorithm.clip_ratio_high", "algorithm.clip_ratio"),
            f"the ratio is clipped to {1 - low:g} ... {1 + high:g}: wider below than above",
            "swap clip_ratio_low and clip_ratio_high if that is not meant",
            "warning",
        )


def name_holds(config: Config) -> Iterator[Verdict]:
    """VRL112: a key turns the algorithm into another one than its name says.

    Why: a name sets the defaults of the keys that make the method what it is, and a key that is written wins over
        them. The run would be called by a name whose method it does not follow.
    Example: `algorithm: {name: dr_grpo, norm_adv_by_std: true}`
    Instead: `algorithm: {name: dr_grpo}`, or `name: grpo` with the keys as they are
    """
    name = config.algorithm.name
    for key, value in ALGORITHMS[name].defines.items():
        found = getattr(config.algorithm, key)
        if found != value:
            yield Verdict(
                "VRL112",
                (f"algorithm.{key}", "algorithm.name"),
                f"{shown(found)}, but {name} is the algorithm with {shown(value)} there",
                "remove it, or take the name of another algorithm",
                "warning",
            )
