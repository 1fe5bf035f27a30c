"""`verl validate --fix`: what is shown, what is asked, what is written, and what the exit code says."""

from __future__ import annotations

import builtins
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from verlcli.cli.app import app
from verlcli.resources import load_schema, presets_dir

LAUNCH = """\
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.max_model_len=4096 \\
    actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    reward_model.reward_manager=dapo
"""
MENDED = LAUNCH.replace("reward_model.reward_manager", "reward.reward_manager.name")
CONFIG = "model: {path: a/b}\ndata: {source: arithmetic}\nalgorithm:\n  clip_rato: 0.2  # narrow\n"
BAD = CONFIG + "  nonsense: 1\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(LAUNCH)
    Path("a.yaml").write_text(CONFIG)
    Path("bad.yaml").write_text(BAD)


def run(*arguments: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["validate", *arguments], input=stdin)


def test_a_script_is_mended_and_the_diff_is_shown() -> None:
    result = run("run.sh", "--fix")
    assert result.exit_code == 0
    assert Path("run.sh").read_text() == MENDED
    lines = result.stderr.splitlines()
    assert lines[:2] == ["--- run.sh", "+++ run.sh (fixed)"]
    assert lines[-3:] == [
        "-    reward_model.reward_manager=dapo",
        "+    reward.reward_manager.name=dapo",
        "run.sh: 1 error mended",
    ]
    assert "VRL227" not in result.stdout


def test_a_config_is_mended_and_the_comment_stays() -> None:
    result = run("a.yaml", "--fix")
    assert (result.exit_code, result.stdout) == (0, "no problems\n")
    assert Path("a.yaml").read_text() == CONFIG.replace("clip_rato", "clip_ratio")


def test_what_is_left_is_reported_and_decides_the_exit_code() -> None:
    result = run("bad.yaml", "--fix")
    assert result.exit_code == 1
    assert result.stdout.startswith("bad.yaml:5:3 error VRL001 algorithm.nonsense: unknown key")
    assert result.stdout.endswith("\n1 error\n")
    assert result.stderr.endswith("bad.yaml: 1 error mended\n")


def test_several_files_and_nothing_to_do() -> None:
    result = run("run.sh", "a.yaml", "a.yaml", "bad.yaml", "--fix")
    assert result.exit_code == 1
    summaries = [line for line in result.stderr.splitlines() if line.endswith("mended")]
    assert summaries == ["run.sh: 1 error mended", "a.yaml: 1 error mended", "bad.yaml: 1 error mended"]
    again = run("run.sh", "a.yaml", "--fix")
    assert (again.exit_code, again.stderr) == (0, "")


def test_json_is_one_document_on_stdout() -> None:
    before = json.loads(run("bad.yaml", "--json").stdout)
    assert [problem["fixable"] for problem in before["problems"]] == [True, False]
    result = run("bad.yaml", "a.yaml", "--fix", "--json")
    document = json.loads(result.stdout)
    Draft202012Validator(load_schema("validate")).validate(document)
    assert [problem["path"] for problem in document["problems"]] == ["algorithm.nonsense"]
    assert "+  clip_ratio: 0.2  # narrow" in result.stderr
    assert result.exit_code == 1


def test_without_fix_nothing_is_written() -> None:
    assert run("run.sh", "a.yaml").exit_code == 1
    assert (Path("run.sh").read_text(), Path("a.yaml").read_text()) == (LAUNCH, CONFIG)


@pytest.mark.parametrize("files", [["-"], ["a.yaml", "-"]])
def test_the_standard_input_cannot_be_mended(files: list[str]) -> None:
    result = run(*files, "--fix", stdin=CONFIG)
    assert result.exit_code == 2
    assert result.stderr == "error: -: --fix has no file to change there\n  fix: name the file, or leave --fix out\n"
    assert Path("a.yaml").read_text() == CONFIG
    assert json.loads(run(*files, "--fix", "--json", stdin=CONFIG).stdout)["error"]["exit_code"] == 2


def test_presets_and_what_stands_on_the_command_line_are_not_touched() -> None:
    presets = {path: path.read_bytes() for path in presets_dir().glob("*.yaml")}
    result = run("7b-single-node", "--fix", "-o", "algorithm.clip_rato=0.2")
    assert result.exit_code == 1
    assert result.stderr == ""
    assert {path: path.read_bytes() for path in presets_dir().glob("*.yaml")} == presets


def test_a_fix_that_is_not_certain_is_left_with_a_word() -> None:
    Path("run.sh").write_text(LAUNCH.replace("dapo", "dapo 'trainer.project_name=${reward_model.reward_manager}'"))
    result = run("run.sh", "--fix")
    assert result.exit_code == 1
    assert result.stderr.startswith("not mended, as the edit is not certain or would bring another error: run.sh:8:5")
    assert "VRL227" in result.stderr
    assert "VRL227" in result.stdout


def test_a_file_that_cannot_be_written_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.open

    def refuse(file: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
        if file == "a.yaml" and mode != "r" and mode != "rb":
            raise PermissionError(13, "Permission denied")
        return real(file, mode, *more, **options)

    monkeypatch.setattr(builtins, "open", refuse)
    result = run("a.yaml", "--fix")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-2:] == [
        "error: a.yaml: cannot be written: Permission denied",
        "  fix: check its permissions, and the space on the disk",
    ]
    assert Path("a.yaml").read_text() == CONFIG


def at_terminal(answer: bytes) -> tuple[int, str]:
    """Exit code and what a person sees who gives `answer`."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "verlcli", "validate", "run.sh", "--fix"]
    process = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL, start_new_session=True)
    os.close(theirs)
    seen = b""
    while b"[Y/n]" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, answer)
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    code = process.wait()
    os.close(ours)
    return code, seen.decode()


@pytest.mark.parametrize(
    ("answer", "code", "text", "last"),
    [
        (b"y\n", 0, MENDED, "run.sh: 1 error mended"),
        (b"\n", 0, MENDED, "run.sh: 1 error mended"),
        (b"n\n", 1, LAUNCH, "run.sh: left as it is"),
        (b"\x04", 130, LAUNCH, "interrupted"),  # the end of the input
    ],
)
def test_a_person_is_asked_after_the_diff(answer: bytes, code: int, text: str, last: str) -> None:
    found, seen = at_terminal(answer)
    assert found == code
    assert Path("run.sh").read_text() == text
    assert seen.index("+    reward.reward_manager.name=dapo") < seen.index("write run.sh? [Y/n]")
    assert seen.rstrip().endswith(last)
