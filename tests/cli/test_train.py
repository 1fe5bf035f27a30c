"""`verl train` as a user meets it: dry run, exit codes, streams, the live view and the closing screen."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from verlcli.resources import load_schema

TINY = ["-o", "data.val_max_samples=8", "-o", "data.train_batch_size=8", "-o", "rollout.n=2"]


@pytest.fixture
def verl(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "verlcli", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)

    return run


def test_a_run_prints_its_result_and_keeps_progress_off_stdout(verl: Any, tmp_path: Path) -> None:
    done = verl("train", "quickstart", *TINY, "-o", "trainer.total_steps=2")
    assert done.returncode == 0, done.stderr
    assert "step 2/2: reward" in done.stderr
    assert "step 2/2" not in done.stdout
    for expected in ("held-out accuracy", "checkpoint   runs/quickstart/checkpoints/step_2", "next:", "tokens/s"):
        assert expected in done.stdout
    assert "\x1b" not in done.stdout + done.stderr

    again = verl("train", "quickstart", *TINY, "-o", "trainer.total_steps=2", "--json", "-q")
    document = json.loads(again.stdout)
    Draft202012Validator(load_schema("train")).validate(document)
    assert document["run_dir"] == "runs/quickstart-2"
    assert again.stderr == ""


def test_a_dry_run_prints_the_plan_and_writes_nothing(verl: Any, tmp_path: Path) -> None:
    done = verl("train", "quickstart", "-o", "trainer.seed=3", "--output-dir", "x y", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(load_schema("plan")).validate(document)
    assert document["command"] == "verl train quickstart -o trainer.seed=3 --output-dir 'x y'"
    assert document["batch"]["sequences"] == 512
    assert list(tmp_path.iterdir()) == []
    assert "64 prompts x 8 samples = 512 sequences" in verl("train", "quickstart", "--dry-run").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "wanted"),
    [
        (["no-such.yaml"], 2, "no-such.yaml"),
        (["quickstrat"], 2, "quickstart"),
        (["quickstart", "-o", "algorithm.clip_rato=0.3"], 2, "clip_ratio"),
        (["quickstart", "-o", "training.ppo_mini_batch_size=48"], 2, "48"),
        (["quickstart", "--resume", "sometimes"], 2, "auto"),
        (["quickstart", "-o", "distributed.device=cuda", "-o", "distributed.gpus_per_node=4"], 3, "one process"),
        (["70b-cluster"], 4, "local"),
        (["quickstart", "--backend", "verl"], 4, "backend"),
        (["quickstart", "-o", "model.path=./nowhere"], 2, "no such model folder"),
        (["quickstart", "-o", "reward.function=nothing.py:f"], 2, "nothing.py"),
        (["quickstart", "-o", "data.train_batch_size=100000"], 2, "9600"),
        (["quickstart", "-o", "model.path=pkg:not_there/x.gguf"], 4, "pip install"),
        ([], 2, "CONFIG"),
    ],
)
def test_bad_input_gets_one_screen_the_fix_and_its_exit_code(
    verl: Any, tmp_path: Path, arguments: list[str], code: int, wanted: str
) -> None:
    done = verl("train", *arguments)
    assert done.returncode == code, done.stderr
    assert wanted in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 24


def test_debug_shows_the_traceback(verl: Any) -> None:
    assert "Traceback" in verl("--debug", "train", "no-such.yaml").stderr


def test_the_live_view_draws_a_bar_and_a_table(tmp_path: Path) -> None:
    from verlcli.cli.live import LiveView

    view = LiveView()
    screen = io.StringIO()
    view._console = Console(file=screen, force_terminal=True, width=140, height=40, highlight=False)
    view._progress.live.console = view._console
    view._fancy = True
    plan: Any = type("Plan", (), {"total_steps": 3})()
    view.started(plan, tmp_path, 0)
    view.evaluated(0, {"accuracy": 0.25})
    for step in (1, 2):
        view.stepped(
            {
                "step": step,
                "metrics": {"reward": 0.5, "accuracy": 0.5, "kl": 0.01, "entropy": 1.25},
                "seconds": {"rollout": 0.6, "reference": 0.1, "update_actor": 0.3, "step": 1.0},
                "tokens_per_second": {"end_to_end": 1234.0},
            }
        )
    view.evaluated(2, {"accuracy": 0.75})
    view.warned("a [bold]warning[/bold] with 'markup'")
    view.closed()
    shown = screen.getvalue()
    for expected in ("reward", "KL", "75.0%", "1,234", "rollout 60% actor 30% reference 10%", "2/3", "[bold]warning"):
        assert expected in shown


def test_shares_name_the_largest_phases_first() -> None:
    from verlcli.cli.live import shares

    assert shares({"rollout": 1.0, "update_actor": 2.0, "reward": 0.1, "values": 0.5, "step": 4.0}) == (
        "actor 50% rollout 25% values 12%"
    )
