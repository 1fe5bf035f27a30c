"""The one table of what `algorithm.name` stands for: its advantage, and the keys whose default it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Estimator = Literal["gae", "grpo", "rloo", "reinforce_plus_plus", "reinforce_plus_plus_baseline"]  # verl's names

GROUPED: frozenset[Estimator] = frozenset({"grpo", "rloo", "reinforce_plus_plus_baseline"})
OVERLONG_PART = 5  # DAPO's buffer is 4,096 of 20,480 tokens


@dataclass(frozen=True)
class Algorithm:
    """What one name stands for.

    Attributes:
        estimator: of the advantage; this alone follows from the name and from no other key.
        defines: keys of `algorithm` without which it is another algorithm; another value there is reported.
        advises: further keys whose default it changes, as its authors set them.
        source: the paper.
    """

    estimator: Estimator
    defines: Mapping[str, Any] = field(default_factory=dict)
    advises: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    @property
    def is_grouped(self) -> bool:
        """Whether the samples of one prompt are compared with each other."""
        return self.estimator in GROUPED


def _part_of_response(values: Mapping[str, Any]) -> int:
    data = values.get("data")
    longest = data.get("max_response_length") if isinstance(data, Mapping) else None
    # A length that is no number is a problem of its own.
    return int(longest) // OVERLONG_PART if isinstance(longest, int) else 0


ALGORITHMS: dict[str, Algorithm] = {
    "grpo": Algorithm("grpo", source="arXiv:2402.03300"),
    "ppo": Algorithm("gae", source="arXiv:1707.06347"),
    "dr_grpo": Algorithm(
        "grpo",
        defines={"norm_adv_by_std": False, "loss_agg_mode": "seq-mean-token-sum-norm"},
        advises={"kl_coef": 0.0},
        source="arXiv:2503.20783",
    ),
    "dapo": Algorithm(
        "grpo",
        defines={"loss_agg_mode": "token-mean", "filter_groups": True},
        advises={
            "clip_ratio_low": 0.2,
            "clip_ratio_high": 0.28,
            "overlong_buffer": _part_of_response,
            "kl_coef": 0.0,
        },
        source="arXiv:2503.14476",
    ),
    "rloo": Algorithm("rloo", advises={"kl_in": "reward", "kl_estimator": "k1"}, source="arXiv:2402.14740"),
    "reinforce_plus_plus": Algorithm(
        "reinforce_plus_plus", advises={"kl_in": "reward", "kl_estimator": "k1"}, source="arXiv:2501.03262"
    ),
    "reinforce_plus_plus_baseline": Algorithm(
        "reinforce_plus_plus_baseline", advises={"kl_estimator": "k2"}, source="arXiv:2501.03262"
    ),
    "gspo": Algorithm(
        "grpo",
        defines={"policy_loss": "gspo"},
        advises={
            "loss_agg_mode": "seq-mean-token-mean",
            "clip_ratio_low": 3e-4,
            "clip_ratio_high": 4e-4,
            "kl_coef": 0.0,
        },
        source="arXiv:2507.18071",
    ),
    "cispo": Algorithm(
        "grpo",
        defines={"policy_loss": "cispo"},
        advises={"clip_ratio_low": 1.0, "clip_ratio_high": 0.2, "kl_coef": 0.0},
        source="arXiv:2506.13585",
    ),
}


def algorithm_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of `algorithm` whose default the name in `values` (a whole config) changes, with the value; none for a name
    that does not exist."""
    section = values.get("algorithm")
    name = section.get("name") if isinstance(section, Mapping) else None
    algorithm = ALGORITHMS.get(name) if isinstance(name, str) else None
    if algorithm is None:
        return {}
    found: dict[str, Any | Callable[[Mapping[str, Any]], Any]] = {**algorithm.defines, **algorithm.advises}
    return {key: value(values) if callable(value) else value for key, value in found.items()}
