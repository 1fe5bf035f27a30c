"""Twenty steps of GRPO and of PPO on stored rollouts give the losses and gradient norms that were recorded.

Tolerances: cutting the micro batches differently, or one thread instead of two, moves the recorded numbers by at most
3e-7 (losses), 1e-5 of themselves (gradient norms) and 1e-6 of themselves (value losses) within the 20 steps; another
CPU's matrix products are a change of that kind. Allowed is some 30 times as much. What is wrong moves them by far more,
which the slow test shows: a coefficient off by a few hundredths of itself is found.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

RUN = runpy.run_path(str(Path(__file__).with_name("stored_rollouts.py")))
STORED: dict[str, Any] = json.loads(RUN["FILE"].read_text(encoding="utf-8"))
TOLERANCES = {
    "loss": {"abs": 1e-5, "rel": 0},
    "value_loss": {"abs": 0, "rel": 3e-5},
    "grad_norm": {"abs": 0, "rel": 3e-4},
    "value_grad_norm": {"abs": 0, "rel": 3e-4},
}


def departures(name: str, changes: dict[str, Any], steps: int) -> list[str]:
    """Where the steps leave the recorded trajectory: `step 3 loss 0.1, recorded 0.2`."""
    found = []
    rows = RUN["run_steps"](RUN["SETTINGS"][name] | changes, STORED["rollouts"], steps)
    for number, row in enumerate(rows):
        for key, recorded in STORED["trajectories"][name].items():
            if row[key] != pytest.approx(recorded[number], **TOLERANCES[key]):
                found.append(f"step {number + 1} {key} {row[key]}, recorded {recorded[number]}")
    return found


@pytest.mark.parametrize("name", STORED["trajectories"])
def test_training_follows_the_recorded_trajectory(name: str) -> None:
    assert departures(name, {}, RUN["STEPS"]) == []


def test_the_recorded_trajectories_are_of_updates_that_matter() -> None:
    for rows in STORED["trajectories"].values():
        assert min(rows["grad_norm"]) > 0.1
        assert len(set(rows["loss"])) == RUN["STEPS"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("grpo", {"algorithm.kl_coef": 0.051}),
        ("grpo", {"algorithm.entropy_coef": 0.0102}),
        ("grpo", {"algorithm.clip_ratio": 0.19}),
        ("grpo", {"algorithm.kl_estimator": "k2"}),
        ("grpo", {"algorithm.loss_agg_mode": "seq-mean-token-mean"}),
        ("grpo", {"algorithm.norm_adv_by_std": "false"}),
        ("ppo", {"algorithm.kl_coef": 0.051}),
        ("ppo", {"algorithm.lam": 0.94}),
        ("ppo", {"algorithm.gamma": 0.999}),
        ("ppo", {"algorithm.value_clip": 0.021}),
        ("ppo", {"actor.optim.lr": 1.01e-4}),
    ],
    ids=str,
)
def test_a_term_that_is_slightly_off_leaves_the_trajectory(name: str, changes: dict[str, Any]) -> None:
    assert departures(name, changes, 12)
