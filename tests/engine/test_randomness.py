"""Randomness depends on seed, step and stream alone."""

from __future__ import annotations

import random

import numpy as np
import torch

from verlcli.engine.randomness import derive_seed, seed_all


def draw(seed: int, step: int, stream: str) -> tuple[float, float, float]:
    seed_all(seed, step, stream)
    return random.random(), float(np.random.rand()), torch.rand(()).item()


def test_the_same_place_draws_the_same() -> None:
    first = draw(0, 3, "rollout")
    draw(0, 4, "rollout")
    assert draw(0, 3, "rollout") == first


def test_neighbours_draw_differently() -> None:
    seeds = {derive_seed(s, t, name) for s in range(20) for t in range(20) for name in ("rollout", "reward")}
    assert len(seeds) == 800
    assert all(0 <= seed < 2**63 for seed in seeds)
