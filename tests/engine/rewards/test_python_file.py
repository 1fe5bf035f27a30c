"""Reward functions of the user's own: checked when loaded, and nothing they do stops a step."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from verlcli.config.types import RewardConfig
from verlcli.engine.rewards import Rewarder, RewardInput, load_reward
from verlcli.errors import ConfigError

GOOD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    "
Load = Callable[..., Rewarder]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Load a reward from source text, or of one function's body; closed after the test."""
    loaded: list[Rewarder] = []

    def make(code: str, *, name: str = "", timeout: float = 10.0, body: bool = True) -> Rewarder:
        file = tmp_path / "reward.py"
        file.write_text(GOOD + textwrap.dedent(code).strip().replace("\n", "\n    ") if body else textwrap.dedent(code))
        loaded.append(load_reward(RewardConfig((f"{file}{name}",), None, timeout, 0.05), log=tmp_path / "reward.log"))
        return loaded[-1]

    yield make
    for rewarder in loaded:
        rewarder.close()


def samples(*solutions: str) -> list[RewardInput]:
    return [RewardInput("sums", solution, "1", {"index": index}) for index, solution in enumerate(solutions)]


def worker(rewarder: Rewarder) -> psutil.Process:
    return psutil.Process(rewarder._scorers[0]._process._children[0].pid)  # type: ignore[attr-defined]


def test_a_function_gets_verls_arguments_and_its_extras_come_back(load: Load) -> None:
    rewarder = load("return {'score': len(solution_str), 'seen': [data_source, ground_truth, extra_info]}")
    outcome = rewarder.score(samples("ab", "é\n\"'\ud800"), seed=0)
    assert outcome.scores == [2.0, 5.0]
    assert outcome.errors == []
    assert outcome.extra[1] == {"seen": ["sums", "1", {"index": 1}]}


def test_a_function_is_chosen_by_name(load: Load) -> None:
    rewarder = load("def mine(solution_str, **rest):\n    return 3\ndef other():\n    pass", name=":mine", body=False)
    assert rewarder.score(samples("x"), seed=0).scores == [3.0]
    assert rewarder.names == ("reward.py:mine",)


def test_a_file_beside_the_reward_can_be_imported(load: Load, tmp_path: Path) -> None:
    (tmp_path / "beside_reward.py").write_text("VALUE = 7")
    assert load("import beside_reward\nreturn beside_reward.VALUE").score(samples("x"), seed=0).scores == [7.0]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python cannot be told to leave the directory out before 3.11")
def test_the_working_directory_can_be_imported_from_but_hides_no_module(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "json.py").write_text("raise ImportError('not me')")
    (place / "of_the_project.py").write_text("VALUE = 7")
    monkeypatch.chdir(place)
    assert load("import of_the_project\nreturn of_the_project.VALUE").score(samples("x"), seed=0).scores == [7.0]


def test_what_a_function_prints_or_reads_does_not_touch_the_protocol(load: Load, tmp_path: Path) -> None:
    rewarder = load(
        """
        import os, subprocess, sys
        print('{"value": 99, "extra": {}}', flush=True)
        os.write(1, b'noise')
        subprocess.run([sys.executable, '-c', 'print(1); input()'], stderr=subprocess.DEVNULL)
        return len(sys.stdin.read())
        """
    )
    assert rewarder.score(samples("a", "b"), seed=0).scores == [0.0, 0.0]
    assert (tmp_path / "reward.log").read_text().count('{"value": 99') == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / 0", "reward.py:4: ZeroDivisionError: division by zero"),
        ("import json\nreturn json.loads('{')", "reward.py:5: json.decoder.JSONDecodeError: Expecting property name"),
        ("try:\n    1 / 0\nexcept Exception as error:\n    raise KeyError('k') from error", "py:7: KeyError: 'k'"),
        ("raise SystemExit(3)", "reward.py:4: SystemExit: 3"),
        ("return compute_score(data_source, solution_str, ground_truth)", "RecursionError"),
        ("return float('nan')", "reward.py: compute_score returned nan, wanted a finite number"),
        ("return float('inf')", "returned inf"),
        ("return 'abc'", "returned 'abc' (str), wanted a number"),
        ("return None", "returned None (NoneType)"),
        ("return [1.0]", "returned [1.0] (list)"),
        ("return {'reward': 1}", "returned a dict without 'score'; it has reward"),
        ("return {'score': None}", "returned None (NoneType)"),
        ("return 10 ** 400", "OverflowError"),
        ("a = []\na.append(a)\nreturn {'score': 1, 'a': a}", "ValueError: Circular reference"),
        ("import numpy\nreturn numpy.zeros(2)", "(ndarray), wanted a number"),
    ],
)
def test_a_failing_sample_scores_0_and_is_reported_with_its_line(load: Load, body: str, message: str) -> None:
    guarded = "if solution_str == 'good':\n    return 1\n" + body
    outcome = load(guarded).score(samples("good", "bad", "good"), seed=0)
    assert outcome.scores == [1.0, 0.0, 1.0]
    assert [error.index for error in outcome.errors] == [1]
    assert message in outcome.errors[0].message


@pytest.mark.parametrize("result", ["True", "1", "numpy.float32(1)", "numpy.array([1.0])", "{'score': numpy.int64(1)}"])
def test_numbers_of_all_kinds_are_scores(load: Load, result: str) -> None:
    assert load(f"import numpy\nreturn {result}").score(samples("x"), seed=0).scores == [1.0]


def test_a_hanging_sample_is_cut_off_and_the_rest_go_on(load: Load) -> None:
    rewarder = load("import time\nif solution_str == 'hang':\n    time.sleep(60)\nreturn 1", timeout=3.0)
    start = time.monotonic()
    outcome = rewarder.score(samples(*["ok"] * 20, "hang", *["ok"] * 20), seed=0)
    assert time.monotonic() - start < 40
    assert outcome.scores == [1.0] * 20 + [0.0] + [1.0] * 20
    assert "no result within 3 s (reward.timeout)" in outcome.errors[0].message


def test_a_batch_of_hanging_samples_is_given_up_early(load: Load) -> None:
    rewarder = load("import time\ntime.sleep(60)", timeout=0.3)
    start = time.monotonic()
    outcome = rewarder.score(samples(*["x"] * 100), seed=0)
    assert time.monotonic() - start < 30
    assert outcome.scores == [0.0] * 100
    assert "not scored: too many samples" in outcome.errors[-1].message


def test_a_loop_without_sleep_is_cut_off_with_the_processes_it_started(load: Load, tmp_path: Path) -> None:
    rewarder = load(
        f"""
        import subprocess
        child = subprocess.Popen(['sleep', '60'])
        open({str(tmp_path / "pid")!r}, 'w').write(str(child.pid))
        while True:
            pass
        """,
        timeout=1.0,
    )
    assert len(rewarder.score(samples("x"), seed=0).errors) == 1
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_killed_process_is_started_again_and_changes_nothing(load: Load) -> None:
    rewarder = load("import random\nreturn random.random()")
    whole = rewarder.score(samples(*"abcdef"), seed=7)
    worker(rewarder).kill()
    again = rewarder.score(samples(*"abcdef"), seed=7)
    assert again == whole
    assert again.errors == []
    assert rewarder.score(samples(*"abcdef"), seed=8).scores != whole.scores


def test_a_process_killed_once_inside_a_sample_scores_it_again(load: Load, tmp_path: Path) -> None:
    flag = tmp_path / "killed"
    rewarder = load(
        f"""
        import os, pathlib
        flag = pathlib.Path({str(flag)!r})
        if solution_str == 'x' and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), 9)
        return 1
        """
    )
    assert rewarder.score(samples("a", "x", "b"), seed=0).scores == [1.0] * 3


def test_a_sample_that_kills_its_process_each_time_scores_0(load: Load) -> None:
    rewarder = load("import os\nif solution_str == 'x':\n    os.kill(os.getpid(), 9)\nreturn 1")
    outcome = rewarder.score(samples("a", "x", "b"), seed=0)
    assert outcome.scores == [1.0, 0.0, 1.0]
    assert "its process died while scoring (killed by SIGKILL)" in outcome.errors[0].message
    rewarder = load("import os\nos._exit(5)")
    assert "exit code 5" in rewarder.score(samples("x"), seed=0).errors[0].message


def test_ctrl_c_and_sigterm_do_not_reach_the_process(load: Load) -> None:
    rewarder = load("import time\ntime.sleep(0.3)\nreturn 1")
    process = worker(rewarder)
    assert os.getpgid(process.pid) != os.getpgid(0)
    for number in (signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
        assert rewarder.score(samples("x"), seed=0).scores == [1.0]
    assert worker(rewarder) == process


def test_close_leaves_no_process_and_a_later_score_starts_one(load: Load) -> None:
    rewarder = load("return 1")
    process = worker(rewarder)
    rewarder.close()
    assert not process.is_running()
    assert rewarder.score(samples("x"), seed=0).scores == [1.0]


SCRIPT = """
import os, sys, time
from verlcli.config.types import RewardConfig
from verlcli.engine.rewards import RewardInput, load_reward
rewarder = load_reward(RewardConfig((sys.argv[1],), None, 60.0, 0.05))
print(rewarder._scorers[0]._process._children[0].pid, flush=True)
if sys.argv[2] == "score":
    rewarder.score([RewardInput("a", "b", "c")], seed=0)
"""


@pytest.mark.parametrize("end", ["exit", "score"])
def test_the_process_does_not_outlive_a_parent_that_exits_or_is_killed(tmp_path: Path, end: str) -> None:
    (tmp_path / "reward.py").write_text(GOOD + "import time\n    time.sleep(60)")
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "reward.py"), end], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        if end == "score":
            time.sleep(0.5)
            parent.kill()
        parent.wait(10)
    deadline = time.monotonic() + 5
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


BAD_FILES: list[tuple[str, str, dict[str, Any]]] = [
    ("x = 1", r"has no function 'compute_score'; it has no functions", {}),
    ("def a(): pass\ndef b(): pass", r"has no function 'compute_score'; it has a, b", {}),
    ("from os.path import join\ndef a(): pass", r"has no function 'c'; it has a\n", {"name": ":c"}),
    ("compute_score = 3", r"'compute_score' is not a function but int", {}),
    ("def compute_score(x): return 1", r"compute_score\(x\) cannot be called as a reward", {}),
    ("def compute_score(a, b, c, d): return 1", r"write `def compute_score\(data_source, solution_str", {}),
    ("compute_score = {}.get", r"compute_score.* cannot be called as a reward", {}),
    ("compute_score = type", r"compute_score.* cannot be called as a reward", {}),
    ("async def compute_score(**a): return 1", r"compute_score is async", {}),
    (
        "x = 1\nimport no_such_package_xyz",
        r"reward.py:2: the import fails: ModuleNotFoundError: .*\n.*install 'no_such_p",
        {},
    ),
    ("x = 1\n\nx = 1 / 0", r"reward.py:3: the import fails: ZeroDivisionError: division by zero", {}),
    ("def compute_score(:\n  pass", r"reward.py:1: the import fails: SyntaxError", {}),
    ("import sys\nsys.exit(2)", r"reward.py:2: the import fails: SystemExit: 2", {}),
    ("import os\nos._exit(2)", r"the import ends its process \(exit code 2\)", {}),
    ("x = '\0'", r"the import fails", {}),
]


@pytest.mark.parametrize(("code", "message", "options"), BAD_FILES)
def test_a_file_that_cannot_serve_is_refused_when_loaded(
    load: Load, code: str, message: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(code, body=False, **options)
    assert caught.match(message)
    assert caught.value.fix
    assert caught.value.exit_code == 2


def test_a_missing_file_is_refused_when_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such reward file\n  fix: check the path"):
        load_reward(RewardConfig((str(tmp_path / "none.py:f"),), None, 1.0, 0.05))


def test_ctrl_c_ends_the_wait_for_a_slow_import_and_its_process(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(
        "import os, time\nopen(__file__ + '.pid', 'w').write(str(os.getpid()) + '\\n')\ntime.sleep(100)\n"
    )
    file, deadline = tmp_path / "reward.py.pid", time.monotonic() + 60
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "reward.py"), "load"], stderr=subprocess.PIPE, text=True
    ) as parent:
        while not (file.exists() and file.read_text().endswith("\n")) and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.send_signal(signal.SIGINT)
        _, stderr = parent.communicate(timeout=20)
    assert "KeyboardInterrupt" in stderr
    assert not _lives(int(file.read_text()))
