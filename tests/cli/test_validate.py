from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from verlcli.cli.app import app
from verlcli.resources import load_schema

GOOD = "model: {path: a/b}\ndata: {source: arithmetic}\n"
BAD = GOOD + "algorithm:\n  clip_rato: 0.2\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    Path("warned.yaml").write_text(GOOD + "verl: {a: 1}\n")
    Path("broken.yaml").write_text("a:\n\tb: 1\n")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["validate", *arguments])


def test_problem_reads_as_documented_and_exit_is_1() -> None:
    result = run("bad.yaml")
    assert result.exit_code == 1
    assert result.stdout == (
        "bad.yaml:4:3 error VRL001 algorithm.clip_rato: unknown key; did you mean 'clip_ratio'?\n1 error\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["good.yaml"], 0),
        (["7b-single-node", "70b-cluster", "cpu-gpu-hybrid"], 0),
        (["warned.yaml"], 0),
        (["good.yaml", "bad.yaml"], 1),
        (["good.yaml", "-o", "rollout.n=x"], 1),
        (["bad.yaml", "-o", "~algorithm.clip_rato"], 0),
        (["broken.yaml"], 2),
        (["missing.yaml"], 2),
        (["no-such-preset"], 2),
        (["x" * 5000], 2),
        (["x" * 5000 + ".yaml"], 2),
        (["good.yaml", "-o", "model.path=" + "x" * 5000], 0),
        (["."], 2),
        (["good.yaml", "-o", "rollout.n"], 2),
        ([], 2),
    ],
)
def test_exit_code(arguments: list[str], code: int) -> None:
    assert run(*arguments).exit_code == code


def test_one_unreadable_file_does_not_hide_the_problems_of_others() -> None:
    result = run("broken.yaml", "bad.yaml", "missing.yaml")
    assert result.exit_code == 2
    assert [line.split(" ")[0] for line in result.stdout.splitlines()[:-1]] == [
        "broken.yaml:2:1",
        "bad.yaml:4:3",
        "missing.yaml",
    ]
    assert "Traceback" not in result.output


@pytest.mark.parametrize("flags", [["--json"], ["--format", "json"]])
@pytest.mark.parametrize("files", [["good.yaml"], ["bad.yaml", "broken.yaml", "missing.yaml"]])
def test_json_is_one_document_of_its_schema(flags: list[str], files: list[str]) -> None:
    document = json.loads(run(*files, *flags, "-o", "reward.timeout=1").stdout)
    Draft202012Validator(load_schema("validate")).validate(document)
    assert document["ok"] is (files == ["good.yaml"])


def test_github_format_annotates_lines() -> None:
    assert run("bad.yaml", "--format", "github").stdout.startswith("::error file=bad.yaml,line=4,col=3,title=VRL001::")
    assert run("good.yaml", "--format", "github").stdout == ""


def test_problem_of_a_shared_base_is_reported_once() -> None:
    for name in "xy":
        Path(f"{name}.yaml").write_text("extends: ./bad.yaml\n")
    assert run("x.yaml", "y.yaml").stdout.count("VRL001") == 1


def test_environment_and_overrides_name_their_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_CFG__ROLLOUT__N", "x")
    lines = run("good.yaml", "-o", "trainer.seed=x").stdout.splitlines()
    assert lines[0] == "-o #1 error VRL002 trainer.seed: 'x' is not a whole number"
    assert lines[1] == "env VERL_CFG__ROLLOUT__N error VRL002 rollout.n: 'x' is not a whole number"


def test_validation_loads_no_torch() -> None:
    code = "import sys; from verlcli.cli.app import app; app(['validate', 'good.yaml'], standalone_mode=False)"
    check = "assert not {'torch', 'transformers'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{code}; {check}"], capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("no problems\n", "", 0)
