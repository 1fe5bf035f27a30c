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


SCRIPT = """\
#!/bin/bash
TP=3
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
    actor_rollout_ref.actor.use_dynamic_bsz=True \\
    actor_rollout_ref.rollout.name=vllm \\
    actor_rollout_ref.rollout.n=8 \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=$TP \\
    reward_model.reward_manager=dapo \\
    trainer.n_gpus_per_node=8
"""


def test_launch_script_is_checked_at_the_lines_of_its_variables() -> None:
    Path("run.sh").write_text(SCRIPT)
    result = run("run.sh")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert any(line.startswith("run.sh:2:4 error VRL201 actor_rollout_ref.rollout.tensor_model") for line in lines)
    assert "    run.sh:11:29 trainer.n_gpus_per_node=8" in lines
    assert any(line.startswith("run.sh:10:5 error VRL227") for line in lines)
    assert any("not checked: needs the cluster" in line for line in lines)
    assert lines[-1].startswith("2 errors")


def test_what_is_known_of_the_cluster_is_checked() -> None:
    Path("run.sh").write_text(SCRIPT.replace("TP=3", "TP=2").replace("reward_model.reward_manager=dapo", "data.seed=1"))
    assert run("run.sh").exit_code == 0
    result = run("run.sh", "--cluster", "8xA100-80G,cpus=8,ram=512G")
    assert result.exit_code == 1
    assert "VRL222" in result.stdout
    assert "not checked: needs the cluster" not in result.stdout


def test_version_of_verl_decides() -> None:
    Path("run.sh").write_text(SCRIPT.replace("TP=3", "TP=2"))
    assert "VRL227" in run("run.sh").stdout
    assert "VRL227" not in run("run.sh", "--verl-version", "0.7").stdout


def test_script_comes_from_stdin_too() -> None:
    result = CliRunner().invoke(app, ["validate", "-"], input=SCRIPT)
    assert result.exit_code == 1
    assert "<stdin>:2:4 error VRL201" in result.stdout


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        (["--cluster", "8xA1000"], "A100"),
        (["--cluster", "8xA100-80G,cpu=4"], "cpus"),
        (["--verl-version", "latest"], "0.9.1"),
        (["--format", "xml"], "github"),
    ],
)
def test_bad_flags_say_what_to_write(flags: list[str], advice: str) -> None:
    result = run("good.yaml", *flags)
    assert result.exit_code == 2
    assert advice in result.stderr


def test_json_of_a_script_is_one_document_of_its_schema() -> None:
    Path("run.sh").write_text(SCRIPT)
    document = json.loads(run("run.sh", "good.yaml", "--json").stdout)
    Draft202012Validator(load_schema("validate")).validate(document)
    problem = next(found for found in document["problems"] if found["code"] == "VRL201")
    assert problem["related"][0]["path"] == "trainer.n_gpus_per_node"


def test_data_are_read_when_asked_for() -> None:
    row = '{"prompt": "2+2=", "data_source": "sums", "reward_model": {"ground_truth": "4"}}\n'
    Path("rows.jsonl").write_text(row * 3)
    Path("data.yaml").write_text("model: {path: a/b}\ndata:\n  train_files: rows.jsonl\n  train_batch_size: 4\n")
    assert "VRL144" not in run("data.yaml").stdout
    result = run("data.yaml", "--data")
    assert "data.yaml:3:16 note VRL144 data.train_files: 3 rows of sums" in result.stdout
    assert "data.yaml:4:21 error VRL141" in result.stdout
    Path("run.sh").write_text(SCRIPT.replace("trainer.n_g", "data.train_files=rows.jsonl trainer.n_g"))
    assert "VRL224" in run("run.sh", "--data").stdout


def test_a_check_of_a_script_loads_neither_torch_nor_hydra_nor_ray() -> None:
    Path("run.sh").write_text(SCRIPT)
    code = "import sys; from verlcli.config.check_file import check_file; assert check_file('run.sh')"
    check = "assert not {'torch', 'transformers', 'hydra', 'omegaconf', 'ray', 'verl', 'rich'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{code}; {check}"], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("name", "words"),
    [("missing.sh", "no such file"), ("folder", "is a directory"), ("nothing", "no preset 'nothing'")],
)
def test_what_is_no_file_is_named_as_what_it_is(name: str, words: str) -> None:
    Path("folder").mkdir()
    result = run(name)
    assert result.exit_code == 2
    assert words in result.stdout


def test_text_of_another_encoding_says_so() -> None:
    Path("wide.yaml").write_bytes("a: 1".encode("utf-16"))
    assert "UTF-16" in run("wide.yaml").stdout


def test_an_empty_stdin_is_named_by_its_name() -> None:
    result = CliRunner().invoke(app, ["validate", "-"], input="")
    assert result.exit_code == 2
    assert result.stdout.startswith("<stdin> error VRL000")


def test_a_version_without_a_table_says_which_one_stands_in() -> None:
    assert "checked as 0.9.1" in run("good.yaml", "--verl-version", "0.9.2").stderr
    assert run("good.yaml", "--verl-version", "0.9.1").stderr == ""


def test_what_was_not_checked_is_no_annotation() -> None:
    Path("run.sh").write_text(SCRIPT)
    assert "not checked" in run("run.sh").stdout
    assert "not checked" not in run("run.sh", "--format", "github").stdout


def test_a_script_is_no_config() -> None:
    Path("run.sh").write_text(SCRIPT)
    result = CliRunner().invoke(app, ["plan", "./run.sh"])
    assert result.exit_code == 2
    assert "verl import" in result.stderr
