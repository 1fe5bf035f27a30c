"""`verl train` as a user meets it: dry run, exit codes, streams, the live view and the closing screen."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
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
        (["cpu-gpu-hybrid", "--backend", "verl"], 4, "backend"),
        (["quickstart", "--backend", "verl"], 2, "lr_scheduler"),
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


@pytest.mark.parametrize(
    ("arguments", "code", "problems"),
    [
        (["no-such.yaml"], 2, 0),
        (["quickstart", "-o", "algorithm.clip_rato=0.3", "-o", "rollout.n=x"], 2, 2),
        (["cpu-gpu-hybrid", "--backend", "verl"], 4, 0),
    ],
)
def test_under_json_bad_input_is_a_document_too(verl: Any, arguments: list[str], code: int, problems: int) -> None:
    done = verl("train", *arguments, "--json")
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(load_schema("error")).validate(document)
    assert document["error"]["exit_code"] == code
    assert document["error"]["message"] in done.stderr
    assert len(document["problems"]) == problems


def test_a_run_goes_on_when_nobody_reads_its_progress(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "verlcli", "train", "quickstart", *TINY, "-o", "trainer.total_steps=2"]
    done = subprocess.run(command, stdout=writer, stderr=writer, timeout=240, cwd=tmp_path)
    os.close(writer)
    assert done.returncode == 0
    assert (tmp_path / "runs/quickstart/checkpoints/step_2/actor").is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_slow_reward_file_is_loaded_ends_at_once_with_130(number: int, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\nopen('pid', 'w').write(f'{os.getpid()}.')\ntime.sleep(100)\n"
        "def f(data_source, solution_str, ground_truth, extra_info=None):\n    return 1\n"
    )
    command = [sys.executable, "-m", "verlcli", "train", "quickstart", *TINY, "-o", "reward.function=slow.py:f"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as started:
        deadline = time.monotonic() + 100
        while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        asked = time.monotonic()
        started.send_signal(number)
        _, stderr = started.communicate(timeout=60)
    assert started.returncode == 130, stderr
    assert time.monotonic() - asked < 30
    assert "Traceback" not in stderr


def test_sigterm_interrupts_inside_and_is_as_before_after() -> None:
    from verlcli.cli.train import sigterm_interrupts

    before = signal.getsignal(signal.SIGTERM)
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_debug_shows_the_traceback(verl: Any) -> None:
    assert "Traceback" in verl("--debug", "train", "no-such.yaml").stderr


def show_run(folder: Path, width: int, *, accuracy: float | None = 0.5, reward: float = 0.5) -> str:
    """What a terminal of that width is sent during a run of two steps."""
    from verlcli.cli.live import LiveView

    judged = {} if accuracy is None else {"accuracy": accuracy}
    view = LiveView()
    screen = io.StringIO()
    view._console = Console(file=screen, force_terminal=True, width=width, height=40, highlight=False)
    view._progress.live.console = view._console
    view._fancy = True
    plan: Any = type("Plan", (), {"total_steps": 3})()
    view.started(plan, folder, 0)
    view.evaluated(0, {"reward": 0.25, **judged})
    for step in (1, 2):
        view.stepped(
            {
                "step": step,
                "metrics": {"reward": reward, "kl": 0.01, "entropy": 1.25, **judged},
                "seconds": {"rollout": 0.6, "reference": 0.1, "update_actor": 0.3, "step": 1.0},
                "tokens_per_second": {"end_to_end": 1234.0},
            }
        )
    view.evaluated(2, {"reward": 0.75, **({} if accuracy is None else {"accuracy": 0.75})})
    view.warned("a [bold]warning[/bold] with 'markup'")
    view.closed()
    return screen.getvalue()


def test_the_live_view_draws_a_bar_and_a_table(tmp_path: Path) -> None:
    shown = show_run(tmp_path, 140)
    for expected in ("reward", "KL", "75.0%", "1,234", "rollout 60% actor 30% reference 10%", "2/3", "[bold]warning"):
        assert expected in shown


@pytest.mark.parametrize("width", [40, 50, 64, 76, 80, 100, 119, 120, 200])
def test_the_table_never_wraps_and_shows_what_fits(width: int, tmp_path: Path) -> None:
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", show_run(tmp_path, width, reward=-1e30))
    last = [line.rstrip() for line in shown.splitlines()]
    heads = [line.split() for line in last if line.startswith("step")]
    start = len(last) - 1 - next(i for i, line in enumerate(reversed(last)) if line.startswith("step"))
    cells = [line.split() for line in last[start + 1 : start + 3]]
    assert [cell[:2] for cell in cells] == [["1", "-1.00e+30"], ["2", "-1.00e+30"]]
    assert "held-out" in heads[-1]
    assert "75.0%" in cells[1]
    assert "1.00" in cells[1]
    assert ("KL" in heads[-1]) == (width >= 76)
    assert ("where" in heads[-1]) == (width >= 120)
    assert "…" not in "".join(last[start : start + 3])


def test_a_run_that_only_a_reward_model_judges_shows_its_reward(tmp_path: Path) -> None:
    shown = show_run(tmp_path, 140, accuracy=None)
    assert "0.750" in shown
    assert "%" in shown  # of the times


@pytest.mark.parametrize(
    ("rewards", "drawn"),
    [
        ([0.1, 0.5, 0.9], True),
        ([0.5], True),
        ([1e308, -1e308, 0.5], True),
        ([1e308, 1e308], True),
        ([1e-320, 0.0], True),
        ([float("nan"), 0.5], True),
        ([float("inf"), None, 0.5], True),
        ([float("nan")], False),
        ([None], False),
        ([], False),
    ],
)
def test_the_closing_plot_draws_what_can_be_drawn(tmp_path: Path, rewards: list[float | None], drawn: bool) -> None:
    from verlcli.cli.outcome import reward_plot

    rows: list[dict[str, Any]] = [{"step": 0, "eval": {"accuracy": 0.5}}, {"step": 0, "eval": {"reward": 1.0}}]
    rows += [{"step": step, "metrics": {"reward": reward}} for step, reward in enumerate(rewards, 1)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plot = reward_plot(tmp_path, width=80)
    assert plot.startswith("no plot: ") != drawn
    assert ("held-out accuracy" in plot) == drawn


def test_a_plot_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    from verlcli.cli.outcome import reward_plot

    assert reward_plot(tmp_path, width=80).startswith("no plot: FileNotFoundError")


def test_shares_name_the_largest_phases_first() -> None:
    from verlcli.cli.live import shares

    assert shares({"rollout": 1.0, "update_actor": 2.0, "reward": 0.1, "values": 0.5, "step": 4.0}) == (
        "actor 50% rollout 25% values 12%"
    )
