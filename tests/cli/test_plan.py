"""`verl plan` as a user meets it: text, JSON, explain, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner, Result

from verlcli.cli.app import app
from verlcli.resources import load_schema

CONFIG = """\
model: {path: tiny}
data: {source: arithmetic, train_batch_size: 16}
rollout: {n: 4}
distributed: {device: cpu}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "mine.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return "mine.yaml"


def verl(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments], env={"NO_COLOR": "1", "COLUMNS": "100", **env})


def document(result: Result, schema: str = "plan") -> Any:
    assert result.exit_code == 0, result.stderr
    loaded = json.loads(result.stdout)
    Draft202012Validator(load_schema(schema)).validate(loaded)
    return loaded


def test_the_text_shows_batches_roles_and_the_command(config: str) -> None:
    result = verl(config, "-o", "data.train_batch_size=32")
    assert result.exit_code == 0, result.stderr
    for part in ("32 prompts x 4 samples = 128 sequences", "rollout", "hf", "fp32", "runs/mine"):
        assert part in result.stdout
    assert "verl train mine.yaml -o data.train_batch_size=32" in result.stdout
    assert result.stderr == ""


def test_the_json_is_one_document_that_matches_its_schema(config: str) -> None:
    plan = document(verl(config, "--json"))
    assert (plan["schema_version"], plan["name"], plan["device"]) == (1, "mine", "cpu")
    assert plan["batch"]["sequences"] == 64
    assert [role["role"] for role in plan["placement"]] == ["actor", "rollout", "reward", "reference"]
    assert plan["command"] == "verl train mine.yaml"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("distributed={device: cuda, gpus_per_node: 2}",), "one process on one device"),
        (("backend=verl", "distributed.device=auto"), "cannot start it"),
    ],
)
def test_a_plan_that_cannot_start_here_says_so_last_and_is_a_plan_still(
    config: str, overrides: tuple[str, ...], words: str
) -> None:
    options = [part for override in overrides for part in ("-o", override)]
    result = verl(config, *options)
    assert result.exit_code == 0, result.stderr
    last = result.stdout.splitlines()[-1]
    assert "cannot start here, `verl train` will refuse: " in last
    assert words in last
    note = document(verl(config, *options, "--json"))["notes"][-1]
    assert (note["severity"], note["message"] in last) == ("warning", True)


def test_a_plan_that_can_start_here_says_nothing_of_it(config: str) -> None:
    assert "cannot start" not in verl(config).stdout
    assert document(verl(config, "--json"))["notes"] == []


def test_the_backend_has_a_flag_as_in_train(config: str) -> None:
    plan = document(verl(config, "--backend", "verl", "-o", "distributed.device=auto", "--json"))
    assert plan["backend"] == "verl"
    assert plan["command"] == "verl train mine.yaml -o distributed.device=auto --backend verl"
    assert verl(config, "--backend", "vrl").exit_code == 2


def test_warnings_are_no_errors_in_the_count(config: str) -> None:
    result = verl(config, "-o", "verl.a=1", "-o", "rollout.n=x")
    assert result.exit_code == 2
    assert "error: the config has 1 error\n" in result.stderr
    assert result.stderr.count("VRL002") == 1


def test_nothing_is_written(config: str, tmp_path: Path) -> None:
    verl(config)
    assert [path.name for path in tmp_path.iterdir()] == [config]


def test_later_files_win(config: str, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("rollout: {n: 2}\n")
    plan = document(verl(config, "more.yaml", "--json"))
    assert (plan["name"], plan["batch"]["samples_per_prompt"]) == ("more", 2)
    assert plan["command"] == "verl train mine.yaml more.yaml"


def test_explain_shows_every_layer_and_which_one_holds(config: str) -> None:
    result = verl(config, "-o", "rollout.n=6", "--explain", "rollout.n", VERL_CFG__ROLLOUT__N="5")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines == [
        ["rollout.n", "=", "6"],
        ["default", "8"],
        ["mine.yaml:3:14", "4"],
        ["env", "VERL_CFG__ROLLOUT__N", "5"],
        ["-o", "#1", "6", "<-", "holds"],
    ]


def test_explain_of_a_section_shows_its_keys(config: str) -> None:
    found = document(verl(config, "--explain", "rollout", "--json"), "plan-explain")
    keys = {entry["key"]: entry for entry in found["keys"]}
    assert keys["rollout.n"]["value"] == 4
    assert [layer["kind"] for layer in keys["rollout.n"]["layers"]] == ["default", "file"]
    assert all(key.startswith("rollout.") for key in keys)


def test_explain_works_on_a_config_with_errors(config: str) -> None:
    assert verl(config, "-o", "rollout.n=-1", "--explain", "rollout.n").exit_code == 0


def test_explain_of_an_unknown_key_suggests_one(config: str) -> None:
    result = verl(config, "--explain", "rollout.temperatur")
    assert result.exit_code == 2
    assert "did you mean 'temperature'" in result.stderr


@pytest.mark.parametrize(
    ("overrides", "code", "words"),
    [
        (("rollout.m=2",), 2, "rollout.m: unknown key"),
        (("actor.device_map=gpu0", "distributed.device=auto"), 2, "is not a device map"),
        (("actor.training_engine=mcore",), 2, "through the verl backend only"),
        (("distributed.device=cuda", "distributed.gpus_per_node=3"), 3, "64 sequences over 3 ranks leaves 1"),
        (
            ("distributed.device=cuda", "distributed.gpus_per_node=2", "actor.device_map=cuda:2"),
            3,
            "cuda:2 does not exist",
        ),
    ],
)
def test_a_refusal_is_one_message_with_a_fix_and_its_exit_code(
    config: str, overrides: tuple[str, ...], code: int, words: str
) -> None:
    result = verl(config, *(part for override in overrides for part in ("-o", override)))
    assert result.exit_code == code
    assert words in result.stderr
    assert "fix: " in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_missing_file_is_exit_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert verl("absent.yaml").exit_code == 2


def test_planning_loads_no_torch(config: str) -> None:
    code = (
        "import sys; from verlcli.cli.app import app; app(['plan', 'mine.yaml'], standalone_mode=False);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_emit_prints_the_command_that_starts_verl(config: str) -> None:
    result = verl(
        config,
        "--emit",
        "verl",
        "-o",
        "data.source=null",
        "-o",
        "data.train_files=hdfs://a/b.parquet",
        "-o",
        "rollout.name=vllm",
    )
    assert result.exit_code == 0, result.stderr
    lines = [line.strip().removesuffix(" \\") for line in result.stdout.splitlines()]
    assert lines[0] == "python3 -m verl.trainer.main_ppo"
    assert {
        "++data.train_batch_size=16",
        "++actor_rollout_ref.rollout.n=4",
        "++data.train_files=hdfs://a/b.parquet",
    } <= set(lines)
    assert all(line.startswith(("++", "'++")) for line in lines[1:])


def test_emit_as_json_matches_its_schema_and_names_what_is_left_out(config: str) -> None:
    files = ("-o", "data.source=null", "-o", "data.train_files=hdfs://a/b.parquet", "-o", "rollout.name=vllm")
    result = verl(config, "--emit", "verl", "--json", *files, "-o", "rollout.max_staleness=2")
    emitted = document(result, "plan-emit")
    assert (emitted["name"], emitted["verl_version"], emitted["engine"]) == ("mine", "0.9.1", "dp")
    assert "++actor_rollout_ref.rollout.n=4" in emitted["overrides"]
    assert emitted["command"].startswith("python3 -m verl.trainer.main_ppo \\\n")
    assert emitted["left_out"] == ["rollout.max_staleness"]
    assert "rollout.max_staleness: verl has no key that says the same" in result.stderr


def test_emit_follows_the_version_and_refuses_a_wrong_config(config: str) -> None:
    files = ("-o", "data.source=null", "-o", "data.train_files=hdfs://a/b.parquet", "-o", "rollout.name=vllm")
    cosine = ("-o", "actor.optim.lr_scheduler=cosine")
    old = verl(config, "--emit", "verl", *files, *cosine, "--verl-version", "0.5.0")
    assert "++actor_rollout_ref.actor.optim.warmup_style=cosine" in old.stdout
    wrong = verl(config, "--emit", "verl", "-o", "rollout.n=none")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert verl(config, "--emit", "trl").exit_code == 2


KNOWN = ("-o", "model.path=Qwen/Qwen2.5-1.5B", "-o", "distributed.device=cuda")


def test_a_plan_for_another_machine_says_how_long_a_step_takes(config: str) -> None:
    result = verl(config, *KNOWN, "--cluster", "1xH100,nodes=2")
    assert result.exit_code == 0, result.stderr
    assert "time  about" in result.stdout
    assert "bound by bandwidth" in result.stdout
    assert "cannot start on 1xH100" not in result.stdout
    fast, slow = (document(verl(config, *KNOWN, "--cluster", gpu, "--json")) for gpu in ("1xH100", "1xA10"))
    phases = [phase["seconds"] for phase in fast["time"]["phases"]]
    assert fast["time"]["seconds"] == pytest.approx(sum(phases))
    assert slow["time"] is None
    assert fast["memory"]["fits"] is True
    assert slow["memory"]["fits"] is False
    assert max(phase["bytes"] for phase in slow["memory"]["phases"]) > 22 * 2**30
    assert any("memory does not fit in 22.5" in note["message"] for note in slow["notes"])
    assert fast["missing"] is None


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (
            ("-o", "distributed.device=cuda", "--cluster", "1xH100"),
            "memory and time: not estimated, no config.json of tiny is known here",
        ),
        ((*KNOWN, "--cluster", "none"), "time: not estimated, name the GPU by --cluster"),
    ],
)
def test_what_an_estimate_lacks_is_asked_for(config: str, arguments: tuple[str, ...], missing: str) -> None:
    planned = document(verl(config, *arguments, "--json"))
    assert planned["time"] is None
    assert missing in planned["missing"]
    assert missing in " ".join(verl(config, *arguments).stdout.split())


def test_a_gpu_that_nobody_knows_is_bad_input(config: str) -> None:
    result = verl(config, "--cluster", "8xFOO")
    assert result.exit_code == 2
    assert "no GPU is known as 'FOO'" in result.stderr
