"""`verl diagnose`: readable text, one JSON document, exit 1 on any FAIL, fast."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from verlcli.resources import load_schema

VERL = str(Path(sys.executable).with_name("verl"))


def diagnose(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([VERL, "diagnose", *arguments], cwd=cwd, capture_output=True, text=True)


def test_text_has_a_line_for_each_finding_and_a_count(tmp_path: Path) -> None:
    done = diagnose(cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("PASS  python")
    assert " PASS" in lines[-1]


@pytest.mark.parametrize("arguments", [(), ("quickstart",)])
def test_json_follows_its_schema(arguments: tuple[str, ...], tmp_path: Path) -> None:
    document = json.loads(diagnose(*arguments, "--json", cwd=tmp_path).stdout)
    Draft202012Validator(load_schema("diagnose")).validate(document)
    ids = [finding["id"] for finding in document["findings"]]
    assert ("plan" in ids) == bool(arguments)
    assert {"python", "torch", "torch-cuda", "vllm", "memory", "disk"} <= set(ids)


def test_failed_finding_exits_1_with_why_and_fix(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("model: {path: ./absent}\ndata: {source: arithmetic}\n")
    done = diagnose("c.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "FAIL  model.path" in done.stdout
    assert "fix: correct model.path" in done.stdout
    assert json.loads(diagnose("c.yaml", "--json", cwd=tmp_path).stdout)["ok"] is False


@pytest.mark.parametrize("arguments", [("absent.yaml",), ("-o", "rollout.n=2"), ("broken.yaml",)])
def test_unusable_input_exits_2_without_a_traceback(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("model: {pth: x}\n")
    done = diagnose(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_override_changes_what_is_looked_for(tmp_path: Path) -> None:
    done = diagnose("quickstart", "-o", "model.path=./absent", cwd=tmp_path)
    assert done.returncode == 1
    assert "absent does not exist" in done.stdout


def test_answers_within_a_second_or_little_more(tmp_path: Path) -> None:
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        diagnose(cwd=tmp_path)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 1.5  # a loaded test machine gets some slack
