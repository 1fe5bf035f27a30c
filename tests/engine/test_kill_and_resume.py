"""A run that is killed at any moment and started again ends as the uninterrupted one, bit for bit (CPU)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file

STEPS = 10

# Patches one function so that the process is killed inside it, at its n-th call: a real SIGKILL, no clean-up.
KILLER = """
import importlib, os, signal, sys
module, name, count, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
target = importlib.import_module(module)
*owners, name = name.split(".")
for owner in owners:
    target = getattr(target, owner)
original, calls = getattr(target, name), [0]
def patched(*args, **kwargs):
    calls[0] += 1
    if calls[0] == count and when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    result = original(*args, **kwargs)
    if calls[0] == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(target, name, patched)
sys.argv = ["verl", *sys.argv[5:]]
from verlcli.cli.app import main
main()
"""

KILL_POINTS = [  # in this order, each on what the one before left
    ("verlcli.engine.stages", "_Work.rollout", 2, "after"),  # before the first checkpoint
    ("verlcli.engine.checkpoint", "write_state", 1, "before"),  # weights written, nothing else
    ("verlcli.engine.checkpoint", "_sync", 2, "after"),  # checksummed, not yet renamed
    ("verlcli.engine.checkpoint", "save_checkpoint", 1, "after"),  # renamed, its event not yet written
    ("verlcli.engine.run_directory", "RunDirectory.append_metrics", 2, "after"),  # metrics ahead of the checkpoint
    ("verlcli.engine.trainer", "evaluate", 1, "before"),
    ("verlcli.engine.run_directory", "RunDirectory.forget_after", 1, "before"),  # while resuming
    ("torch.optim", "AdamW.step", 3, "after"),  # in the middle of an update
]


def write_config(folder: Path, settings: dict[str, Any], **changes: Any) -> Path:
    file = folder / "run.yaml"
    tree: dict[str, Any] = {}
    for key, value in (settings | changes).items():
        *sections, leaf = key.split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[leaf] = value
    file.write_text(yaml.safe_dump(tree))
    return file


def command(config: Path, run_dir: Path) -> list[str]:
    return ["train", str(config), "--output-dir", str(run_dir), "--json", "-q"]


def run(arguments: list[str], **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "verlcli", *arguments], capture_output=True, text=True, timeout=300, **kwargs
    )


def lasting(run_dir: Path) -> list[dict[str, Any]]:
    """Everything of `metrics.jsonl` that does not depend on the clock."""
    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    return [{k: row[k] for k in ("step", "metrics", "tokens", "eval") if k in row} for row in rows]


@pytest.mark.parametrize(
    ("algorithm", "lora_rank"),
    [("grpo", 0), pytest.param("ppo", 0, marks=pytest.mark.slow), pytest.param("grpo", 4, marks=pytest.mark.slow)],
)
def test_killed_anywhere_and_started_again_ends_bit_for_bit_the_same(
    settings: Any, tmp_path: Path, algorithm: str, lora_rank: int
) -> None:
    config = write_config(
        tmp_path,
        settings(
            **{
                "algorithm.name": algorithm,
                "model.lora_rank": lora_rank,
                "trainer.total_steps": STEPS,
                "trainer.test_freq": 3,
                "training.ppo_mini_batch_size": 4,
                "training.ppo_epochs": 2,
            }
        ),
    )
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run(command(config, whole)).returncode == 0

    for module, name, count, when in KILL_POINTS:
        arguments = [module, name, str(count), when, *command(config, killed)]
        died = subprocess.run([sys.executable, "-c", KILLER, *arguments], capture_output=True, text=True, timeout=300)
        assert died.returncode == -signal.SIGKILL, f"{name}: not killed: {died.stderr}"
    ended = run(command(config, killed))
    assert ended.returncode == 0, ended.stderr

    assert lasting(killed) == lasting(whole)
    last = f"checkpoints/step_{STEPS}"
    names = [path.relative_to(whole / last) for path in (whole / last).rglob("*.safetensors")]
    assert len(names) == (4 if algorithm == "ppo" else 2)
    for name in names:
        one, two = (load_file(folder / last / name) for folder in (whole, killed))
        assert one.keys() == two.keys()
        assert all(one[key].equal(two[key]) for key in one)
    attempts = json.loads((killed / "manifest.json").read_text())["attempts"]
    assert len(attempts) == len(KILL_POINTS) + 1
    assert attempts[-1]["from_step"] > 0
    assert attempts[-1]["exit_code"] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_exits_130(settings: Any, tmp_path: Path, number: signal.Signals) -> None:
    config = write_config(
        tmp_path, settings(**{"trainer.total_steps": 5000, "trainer.save_freq": 0, "trainer.test_freq": 0})
    )
    run_dir = tmp_path / "run"
    child = subprocess.Popen(
        [sys.executable, "-m", "verlcli", *command(config, run_dir)],
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.PIPE,
    )
    metrics = run_dir / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(child.pid, number)
    stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 130, stderr
    assert json.loads(stdout)["error"]["exit_code"] == 130
    last = lasting(run_dir)[-1]["step"]
    assert f"stopped by {number.name} after step {last}" in stderr
    assert (run_dir / f"checkpoints/step_{last}/state.json").is_file()
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["status"] == "interrupted"
    assert manifest["attempts"][-1]["exit_code"] == 130

    more = run([*command(config, run_dir), "-o", f"trainer.total_steps={last + 2}"])
    assert more.returncode == 0, more.stderr
    assert [row["step"] for row in lasting(run_dir)] == list(range(last + 3))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_step_exits_130_at_once(
    settings: Any, tmp_path: Path, number: signal.Signals
) -> None:
    reward = tmp_path / "slow.py"
    reward.write_text(
        "import time\ntime.sleep(60)\n"
        "def f(data_source, solution_str, ground_truth, extra_info=None):\n    return 0.0\n"
    )
    config = write_config(tmp_path, settings(**{"reward.function": f"{reward}:f"}))
    run_dir = tmp_path / "run"
    child = subprocess.Popen(
        [sys.executable, "-m", "verlcli", *command(config, run_dir)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (run_dir / "manifest.json").exists():
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(child.pid, number)
    started = time.monotonic()
    _, stderr = child.communicate(timeout=50)
    assert child.returncode == 130, stderr
    assert time.monotonic() - started < 20
    assert "before a step was finished" in stderr
    assert json.loads((run_dir / "manifest.json").read_text())["status"] == "interrupted"
