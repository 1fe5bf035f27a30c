from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from verlcli.cli.app import app
from verlcli.config.presets import preset_names, preset_path


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["presets", *arguments])


def test_list_has_a_described_line_a_preset() -> None:
    lines = run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(preset_names())
    assert all(len(line.split()) > 3 for line in lines)


def test_list_as_json() -> None:
    document = json.loads(run("list", "--json").stdout)
    assert [preset["name"] for preset in document["presets"]] == list(preset_names())
    assert [preset["name"] for preset in document["presets"] if preset["base"]] == ["verl-defaults"]


def test_show_prints_the_file_as_it_is() -> None:
    assert run("show", "70b-cluster").stdout == preset_path("70b-cluster").read_text(encoding="utf-8")


def test_show_as_json_has_the_keys_as_written() -> None:
    document = json.loads(run("show", "70b-cluster", "--json").stdout)
    assert (document["schema_version"], document["name"]) == (1, "70b-cluster")
    assert document["description"].startswith("70B")
    assert document["values"]["actor_rollout_ref"]["ulysses_sequence_parallel_size"] == 4


def test_copy_writes_a_file_that_validates_and_never_overwrites() -> None:
    assert run("copy", "cpu-gpu-hybrid").exit_code == 0
    assert CliRunner().invoke(app, ["validate", "cpu-gpu-hybrid.yaml"]).exit_code == 0
    Path("cpu-gpu-hybrid.yaml").write_text("mine")
    again = run("copy", "cpu-gpu-hybrid")
    assert again.exit_code == 2
    assert "the file exists" in again.output
    assert Path("cpu-gpu-hybrid.yaml").read_text() == "mine"
    assert run("copy", "cpu-gpu-hybrid", "other.yaml").exit_code == 0


@pytest.mark.parametrize("command", ["show", "copy"])
def test_unknown_preset_lists_the_known_ones(command: str) -> None:
    result = run(command, "70b-clustr")
    assert result.exit_code == 2
    assert "did you mean '70b-cluster'?" in result.output
