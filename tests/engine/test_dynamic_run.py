"""Whole runs with dynamic sampling and an adaptive KL coefficient: resumed ones go on as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.engine.trainer import PPOTrainer

Settings = Callable[..., dict[str, Any]]
COIN = """
import zlib

def score(data_source, solution_str, ground_truth, extra_info=None):
    return float(zlib.crc32(solution_str.encode()) % 4 == 0)
"""


def make(changes: dict[str, Any]) -> PPOTrainer:
    tree: dict[str, Any] = {}
    for key, value in changes.items():
        node = tree
        for part in key.split(".")[:-1]:
            node = node.setdefault(part, {})
        node[key.rpartition(".")[2]] = value
    return PPOTrainer(tree)


def metrics(run: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row["metrics"] for row in rows if "metrics" in row]


@pytest.mark.parametrize(
    "own",
    [
        {"algorithm.name": "dapo", "algorithm.max_num_gen_batches": 3},
        {"algorithm.name": "rloo", "algorithm.kl_coef": 0.1, "algorithm.kl_target": 0.01, "algorithm.kl_horizon": 64},
    ],
    ids=["dynamic sampling", "adaptive KL"],
)
def test_a_run_in_two_parts_is_the_run_in_one(settings: Settings, tmp_path: Path, own: dict[str, Any]) -> None:
    reward = tmp_path / "coin.py"
    reward.write_text(COIN)
    base = settings(**own | {"rollout.n": 2, "reward.function": [f"{reward}:score"], "trainer.test_freq": 0})
    make(base | {"trainer.output_dir": str(tmp_path / "one")}).train()
    parts = base | {"trainer.output_dir": str(tmp_path / "two")}
    make(parts | {"trainer.total_steps": 2}).train()
    make(parts).train()
    assert metrics(tmp_path / "two") == metrics(tmp_path / "one")
    assert len(metrics(tmp_path / "one")) == 4
    weights = [
        (tmp_path / run / "checkpoints" / "step_4" / "actor" / "model.safetensors").read_bytes()
        for run in ("one", "two")
    ]
    assert weights[0] == weights[1]


def test_further_prompts_are_a_function_of_step_and_number(settings: Settings) -> None:
    feed = make(settings())._feed
    again = make(settings())._feed
    assert feed.more(1, 1) == again.more(1, 1)
    assert feed.more(1, 1) != feed.more(1, 2)
    assert feed.more(1, 1) != feed.more(2, 1)
    assert torch.tensor([len(ids) for ids in feed.more(3, 1)[1]]).gt(0).all()
