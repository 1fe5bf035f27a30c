"""`verl import` as a user meets it: files, stdout, JSON, warnings, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from verlcli.cli.app import app
from verlcli.config import load_config
from verlcli.resources import load_schema

SCRIPT = """\
MODEL=org/name
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=$MODEL \\
    data.train_files=hf://data \\
    actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.n=4 \\
    actor_rollout_ref.rollout.enforce_eager=True
"""
OPEN = """\
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$HOME/model trainer.experiment_name=$(date) "$@"
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.sh").write_text(SCRIPT)


def verl(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["import", *arguments], input=stdin, env={"NO_COLOR": "1", "COLUMNS": "200"})


def test_without_an_output_the_config_goes_to_stdout_and_nothing_else() -> None:
    result = verl("run.sh")
    assert (result.exit_code, result.stderr) == (0, "")
    values: dict[str, Any] = yaml.safe_load(result.stdout)
    assert (values["extends"], values["backend"]) == ("verl-defaults", "verl")
    assert values["model"] == {"path": "org/name"}
    assert values["rollout"] == {"name": "vllm", "n": 4}
    assert values["verl"] == {"actor_rollout_ref": {"rollout": {"enforce_eager": True}}}
    assert "# Imported from run.sh (line 2), as verl 0.9.1 reads it." in result.stdout


def test_the_file_loads_as_a_config_of_the_verl_backend() -> None:
    result = verl("run.sh", "-o", "out.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "wrote out.yaml (5 keys here, 1 under verl:); check it with: verl validate out.yaml" in result.stderr
    loaded = load_config(["out.yaml"], env={})
    assert loaded.values["backend"] == "verl"
    assert loaded.values["rollout"]["tensor_model_parallel_size"] == 2  # verl's default


def test_nothing_is_written_over_unless_forced() -> None:
    Path("out.yaml").write_text("mine")
    refused = verl("run.sh", "-o", "out.yaml")
    assert refused.exit_code == 2
    assert "the file exists" in refused.stderr
    assert "--force" in refused.stderr
    assert Path("out.yaml").read_text() == "mine"
    assert verl("run.sh", "-o", "out.yaml", "--force").exit_code == 0
    assert "org/name" in Path("out.yaml").read_text()
    nowhere = verl("run.sh", "-o", "no/such/out.yaml")
    assert nowhere.exit_code == 2
    assert "cannot be written" in nowhere.stderr


def test_stdin_is_read_for_a_dash() -> None:
    result = verl("-", stdin=SCRIPT)
    assert result.exit_code == 0
    assert "# Imported from <stdin> (line 2)" in result.stdout


def test_what_the_environment_or_a_run_decides_is_said_key_by_key() -> None:
    result = verl("-", stdin=OPEN)
    assert result.exit_code == 0
    assert "<stdin>:1:63 actor_rollout_ref.model.path: $HOME/model is read from the environment" in result.stderr
    assert "trainer.experiment_name: left out" in result.stderr
    assert "known at run time only; fill it in" in result.stderr
    assert "the script hands its own arguments on" in result.stderr
    kept = yaml.safe_load(result.stdout)["verl"]
    assert kept == {"actor_rollout_ref": {"model": {"path": "${oc.env:HOME}/model"}}}


def test_of_several_launches_the_last_one_is_taken_and_said_so() -> None:
    Path("two.sh").write_text(SCRIPT + SCRIPT.replace("org/name", "org/second").replace("n=4", "n=9"))
    last = verl("two.sh")
    assert "2 launches; took number 2, line 8 (choose with --launch N)" in last.stderr
    assert yaml.safe_load(last.stdout)["rollout"]["n"] == 9
    first = verl("two.sh", "--launch", "1")
    assert yaml.safe_load(first.stdout)["rollout"]["n"] == 4
    none = verl("two.sh", "--launch", "3")
    assert none.exit_code == 2
    assert "1 in line 2; 2 in line 8" in none.stderr


def test_json_is_one_document_that_matches_its_schema() -> None:
    document = json.loads(verl("-", "--json", stdin=OPEN).stdout)
    Draft202012Validator(load_schema("import")).validate(document)
    assert document["environment"] == ["actor_rollout_ref.model.path"]
    assert [left["key"] for left in document["left_out"]] == ["trainer.experiment_name"]
    assert document["output"] is None
    written = json.loads(verl("run.sh", "--json", "-o", "out.yaml").stdout)
    Draft202012Validator(load_schema("import")).validate(written)
    assert (written["output"], written["launch"], written["launches"]) == ("out.yaml", 1, 1)
    assert written["mapped"]["model.path"] == "org/name"
    assert written["yaml"] == Path("out.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo hello\n", "nothing in it starts verl's trainer"),
        ("torchrun -m verl.trainer.sft_trainer a=b\n", "starts sft"),
    ],
)
def test_a_script_without_the_trainer_is_exit_code_2(text: str, message: str) -> None:
    Path("other.sh").write_text(text)
    result = verl("other.sh", "-o", "out.yaml")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not Path("out.yaml").exists()


def test_an_older_version_is_read_with_its_own_keys() -> None:
    Path("old.sh").write_text(
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.optim.warmup_style=cosine trainer.nnodes=2\n"
    )
    old, new = verl("old.sh", "--verl-version", "0.5.0"), verl("old.sh")
    assert yaml.safe_load(old.stdout)["actor"] == {"optim": {"lr_scheduler": "cosine"}}
    assert yaml.safe_load(new.stdout)["verl"] == {"actor_rollout_ref": {"actor": {"optim": {"warmup_style": "cosine"}}}}


def test_a_config_file_that_the_script_brings_and_nobody_can_read_is_said() -> None:
    launch = "python3 -m verl.trainer.main_ppo --config-path=/no/such --config-name=mine trainer.nnodes=2\n"
    result = verl("-", stdin=launch)
    assert yaml.safe_load(result.stdout)["distributed"] == {"nnodes": 2}
    assert "'mine' could not be read here, so what it says is missing; add it by hand" in result.stderr
