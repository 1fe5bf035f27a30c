"""Learning rates by step."""

from __future__ import annotations

import pytest

from verlcli.config.types import OptimConfig
from verlcli.engine.schedule import learning_rate


def optim(scheduler: str, warmup: int) -> OptimConfig:
    return OptimConfig(1.0, 0.0, (0.9, 0.999), 1e-8, 1.0, scheduler, warmup, "fp32")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scheduler", "warmup", "wanted"),
    [
        ("constant", 0, [1, 1, 1, 1]),
        ("constant", 2, [0.5, 1, 1, 1]),
        ("linear", 0, [1, 0.75, 0.5, 0.25]),
        ("cosine", 0, [1, 0.853553, 0.5, 0.146447]),
        ("linear", 2, [0.5, 1, 1, 0.5]),
        ("constant", 8, [0.125, 0.25, 0.375, 0.5]),
    ],
)
def test_learning_rate_by_step(scheduler: str, warmup: int, wanted: list[float]) -> None:
    assert [learning_rate(optim(scheduler, warmup), step, 4) for step in (1, 2, 3, 4)] == pytest.approx(
        wanted, abs=1e-6
    )
