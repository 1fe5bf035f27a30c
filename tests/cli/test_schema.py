from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from verlcli.cli.app import app
from verlcli.resources import load_schema, schema_names


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["schema", *arguments])


def test_config_schema_is_the_default() -> None:
    assert json.loads(run().stdout) == load_schema("config")


@pytest.mark.parametrize("name", schema_names())
def test_every_schema_is_printed_by_name(name: str) -> None:
    assert json.loads(run(name).stdout) == load_schema(name)


def test_key_prints_its_part() -> None:
    assert json.loads(run("rollout.n").stdout)["default"] == 8
    assert "lr" in json.loads(run("actor.optim").stdout)["properties"]


def test_unknown_key_gets_advice() -> None:
    result = run("algorithm.clip_rato")
    assert result.exit_code == 2
    assert "did you mean 'clip_ratio'?" in result.output
