"""Launch scripts become configs that say the same to verl."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from verlcli.config import load_config
from verlcli.config.context import Context
from verlcli.config.resolve import resolve
from verlcli.config.verl.emit import hydra_overrides, launch_command
from verlcli.config.verl.import_yaml import config_text
from verlcli.config.verl.importer import Imported, import_run
from verlcli.config.verl.overrides import parse_override
from verlcli.config.verl.read_launch import read_launch
from verlcli.config.verl.run import VerlRun
from verlcli.config.verl.settings import UNKNOWN, Setting
from verlcli.config.verl.translate import translate
from verlcli.errors import ConfigError

LAUNCHES = Path(__file__).parents[2] / "data" / "verl_launches"
_PATHS = ("data.train_files", "data.val_files", "reward.custom_reward_function.path")
_ENVIRONMENT = "read from the environment"
SCRIPTS = sorted(path.name for path in LAUNCHES.glob("*.sh") if path.name != "sft.sh")


def imported(name: str, version: str | None = None) -> Imported:
    return import_run(read_launch(str(LAUNCHES / name), context=Context(verl_version=version)).run)


def emitted(run: VerlRun, folder: Path) -> tuple[Imported, list[str]]:
    """The import of a launch, and the overrides that its config gives, by way of a file in `folder`."""
    imported = import_run(run)
    file = folder / "imported.yaml"
    file.write_text(config_text(imported, ["a test"], folder), encoding="utf-8")
    return imported, hydra_overrides(translate(resolve([file], env={}), run.version))


def said_by(run: VerlRun, imported: Imported) -> dict[str, Any]:
    """Every key that the launch sets, mappings key by key, without what nobody can know."""
    left_out = {left.setting.key for left in imported.left_out}
    found: dict[str, Any] = {}
    for setting in run.settings:
        if setting.inside or setting.key in left_out:
            continue
        key = f"~{setting.key}" if setting.prefix == "~" else setting.key
        value = _ENVIRONMENT if setting.key in imported.environment else setting.value
        found |= dict(_leaves(key, None if setting.prefix == "~" else value))
    return found


def said_to_verl(overrides: list[str], imported: Imported) -> dict[str, Any]:
    """Every key that the overrides set, after bash has read the command."""
    words = shlex.split(launch_command(overrides).replace("\\\n", ""))
    assert words == ["python3", "-m", "verl.trainer.main_ppo", *overrides]
    found: dict[str, Any] = {}
    for override in map(parse_override, overrides):
        key = f"~{override.key}" if override.prefix == "~" else override.key
        value = _ENVIRONMENT if override.key in imported.environment else override.value
        found |= dict(_leaves(key, value))
    return found


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _leaves(f"{key}.{name}", child)
    else:
        yield key, _comparable(key, value)


def _comparable(key: str, value: Any) -> Any:
    """1 is 1.0 but not True; a path is the same wherever it is named from."""
    if isinstance(value, list):
        return [_comparable(key, item) for item in value]
    if isinstance(value, str) and key in _PATHS and value != _ENVIRONMENT:
        return os.path.abspath(os.path.expanduser(value))
    return (type(value) is bool, value)


def test_there_are_scripts_of_every_kind() -> None:
    assert len(SCRIPTS) >= 15


@pytest.mark.parametrize("version", ["0.8.0", "0.9.0", "0.9.1"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_the_same_to_verl_after_import_and_export(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = read_launch(str(LAUNCHES / name), context=Context(verl_version=version)).run
    found, overrides = emitted(run, tmp_path)
    assert said_to_verl(overrides, found) == said_by(run, found)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("grpo_lora.sh", "model.lora_rank", 64),
        ("grpo_lora.sh", "model.lora_target_modules", "all-linear"),
        ("grpo_lora.sh", "algorithm.name", "grpo"),
        ("grpo_lora.sh", "algorithm.kl_in", "loss"),
        ("grpo_lora.sh", "algorithm.kl_estimator", "k3"),
        ("grpo_lora.sh", "actor.optim.lr", 3e-5),
        ("grpo_lora.sh", "trainer.loggers", ["wandb"]),
        ("megatron_lora.sh", "model.lora_rank", 32),
        ("megatron_lora.sh", "model.lora_alpha", 64),
        ("megatron_lora.sh", "actor.training_engine", "mcore"),
        ("megatron_lora.sh", "actor.optim.lr_scheduler", "cosine"),
        ("megatron_lora.sh", "training.fsdp_config.param_offload", True),
        ("ppo_critic.sh", "algorithm.name", "ppo"),
        ("ppo_critic.sh", "critic.path", "/models/value"),
        ("ppo_critic.sh", "critic.optim.warmup_steps", 10),
        ("ppo_critic.sh", "algorithm.value_clip", 0.2),
        ("ppo_critic.sh", "algorithm.kl_in", "reward"),
        ("ppo_critic.sh", "algorithm.kl_coef", 0.002),
        ("ppo_critic.sh", "algorithm.kl_estimator", "k1"),
        ("ppo_critic.sh", "training.ppo_micro_batch_size_per_gpu", 8),
        ("dapo.sh", "training.fsdp_config.fsdp_size", None),
        ("ppo_critic.sh", "trainer.keep_checkpoints", 2),
        ("both_kl.sh", "algorithm.kl_coef", 0.01),
        ("both_kl.sh", "algorithm.kl_estimator", "k2"),
        ("dapo.sh", "data.max_prompt_length", 2048),
        ("dapo.sh", "model.path", "Qwen/Qwen2.5-32B"),
        ("dapo.sh", "algorithm.kl_coef", 0.0),
        ("dapo.sh", "algorithm.clip_ratio_high", 0.28),
        ("dapo.sh", "rollout.top_k", 0),
        ("dapo.sh", "training.use_dynamic_bsz", True),
        ("resume_step.sh", "trainer.resume", 40),
        ("resume_step.sh", "trainer.save_freq", 20),
        ("never.sh", "trainer.resume", "never"),
        ("never.sh", "trainer.total_steps", 500),
        ("lists_and_maps.sh", "data.train_files", ["/data/a.parquet", "/data/b.parquet"]),
        ("lists_and_maps.sh", "model.attn_implementation", "sdpa"),
        ("lists_and_maps.sh", "actor.optim.betas", [0.9, 0.95]),
        ("lists_and_maps.sh", "trainer.loggers", ["jsonl"]),
        ("rloo.sh", "training.fsdp_config.mixed_precision", "fp16"),
        ("rloo.sh", "actor.dtype", "bf16"),
        ("rloo.sh", "algorithm.name", "rloo"),
        ("removal.sh", "data.val_max_samples", None),
        ("removal.sh", "data.num_dataloader_workers", 2),
        ("removal.sh", "distributed.device", "cuda"),
        ("several.sh", "model.path", "second/model"),
        ("several.sh", "distributed.ray_address", "auto"),
        ("reward_file.sh", "reward_model.path", "org/judge"),
    ],
)
def test_a_key_with_a_counterpart_goes_to_its_section(name: str, key: str, value: Any) -> None:
    assert imported(name).ours[key] == value


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("rloo.sh", "actor_rollout_ref.rollout.name", "trtllm"),
        ("both_kl.sh", "algorithm.use_kl_in_reward", True),
        ("both_kl.sh", "algorithm.kl_ctrl.kl_coef", 0.003),
        ("dapo.sh", "algorithm.kl_ctrl.kl_coef", 0.0),
        ("dapo.sh", "data.gen_batch_size", 1536),
        ("resume_elsewhere.sh", "trainer.resume_from_path", "/old/global_step_40"),
        ("resume_elsewhere.sh", "trainer.save_freq", -1),
        ("steps_alone.sh", "trainer.total_training_steps", 500),  # ours means as many epochs too
        ("lists_and_maps.sh", "data.val_files", ["/data/v.parquet"]),  # ours would say one file, no list
        ("lists_and_maps.sh", "actor_rollout_ref.rollout.engine_kwargs.vllm", {"swap_space": 4, "dtype": "auto"}),
        ("grpo_lora.sh", "trainer.total_epochs", 15),
        ("ppo_critic.sh", "critic.ppo_micro_batch_size_per_gpu", 16),
        ("ppo_critic.sh", "critic.fsdp.param_offload", False),
        ("environment.sh", "data.train_files", "${oc.env:HOME}/data/train.parquet"),
        ("environment.sh", "data.val_files", ["${oc.env:HOME}/data/a.parquet", "/data/b.parquet"]),
        ("environment.sh", "actor_rollout_ref.model.path", "${oc.env:MODEL_DIR}"),
        ("environment.sh", "trainer.nnodes", "${oc.decode:${oc.env:SLURM_NNODES}}"),
        ("removal.sh", "~actor_rollout_ref.rollout.seed", None),
        ("reward_file.sh", "reward.custom_reward_function.path", "rewards.py"),  # no such file here
    ],
)
def test_what_has_no_word_here_is_kept_as_it_is(name: str, key: str, value: Any) -> None:
    assert imported(name).kept[key] == value


def test_a_reward_file_that_is_here_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text("def score(): ...\n")
    assert imported("reward_file.sh").ours["reward.function"] == ["rewards.py:score"]


def test_what_only_a_run_tells_is_left_out_with_its_reason() -> None:
    (left,) = imported("environment.sh").left_out
    assert left.setting.key == "trainer.experiment_name"
    assert left.setting.raw == "run_$(...)"
    assert "date" in left.reason


def test_the_text_has_variables_beside_values_and_our_sections_in_the_schema_s_order() -> None:
    text = config_text(imported("grpo_lora.sh"), ["one", "two"], Path.cwd())
    assert text.splitlines()[1:5] == ["# one", "# two", "extends: verl-defaults", "backend: verl"]
    assert "  path: Qwen/Qwen2.5-3B-Instruct  # $MODEL" in text
    assert "  lora_rank: 64  # $RANK" in text
    values = yaml.safe_load(text)
    sections = ["extends", "backend", "model", "data", "algorithm", "actor", "rollout", "trainer", "verl"]
    assert list(values) == sections
    assert values["verl"]["trainer"] == {"total_epochs": 15}


def test_a_comment_never_cuts_a_text_that_goes_on_in_the_next_line() -> None:
    long = "word " * 60
    found = Imported({}, {"trainer.project_name": long}, {"verl.trainer.project_name": "NAME"}, {}, ())
    assert yaml.safe_load(config_text(found, [], Path.cwd()))["verl"]["trainer"]["project_name"] == long


def test_relative_files_are_named_from_the_new_file_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ours = {"data.train_files": ["a.parquet", "/b.parquet", "~/c.parquet", "hdfs://d"], "model.path": "org/name"}
    values = yaml.safe_load(config_text(Imported(ours, {}, {}, {}, ()), [], tmp_path / "configs" / "deep"))
    assert values["data"]["train_files"] == ["../../a.parquet", "/b.parquet", "~/c.parquet", "hdfs://d"]
    assert values["model"]["path"] == "org/name"  # a hub id


def test_a_key_that_is_also_a_section_keeps_its_dots(tmp_path: Path) -> None:
    kept = {"a.b": {}, "a.b.c": 1, "a.d": 2, "actor@a.b": "x"}
    values = yaml.safe_load(config_text(Imported({}, kept, {}, {}, ()), [], tmp_path))
    assert values["verl"] == {"a.b": {}, "a": {"b": {"c": 1}, "d": 2}, "actor@a.b": "x"}


@pytest.mark.parametrize("name", ["grpo_lora.sh", "megatron_lora.sh", "rloo.sh", "environment.sh"])
def test_the_import_causes_no_error_of_the_schema(name: str, tmp_path: Path) -> None:
    file = tmp_path / "out.yaml"
    file.write_text(config_text(imported(name), ["x"], tmp_path))
    codes = {problem.code for problem in load_config([file], env={}).problems if problem.severity == "error"}
    assert not {code for code in codes if code < "VRL100"} - {"VRL005"}


@pytest.mark.parametrize(("number", "path"), [(1, "first/model"), (2, "second/model"), (None, "second/model")])
def test_the_last_launch_is_taken_unless_another_is_asked_for(number: int | None, path: str) -> None:
    found = read_launch(str(LAUNCHES / "several.sh"), number)
    assert (found.number, found.total) == (number or 2, 2)
    assert found.run.get("actor_rollout_ref.model.path") == path


def test_a_hydra_yaml_is_imported_and_a_dump_without_what_is_verl_s_default(tmp_path: Path) -> None:
    part = tmp_path / "mine.yaml"
    part.write_text(
        "defaults: [ppo_trainer, _self_]\ndata: {train_batch_size: 64, max_prompt_length: 512}\n"
        "actor_rollout_ref: {rollout: {n: 4, response_length: '${data.max_response_length}'}}\n"
    )
    found = import_run(read_launch(str(part)).run)
    assert found.ours == {"data.max_prompt_length": 512, "data.train_batch_size": 64, "rollout.n": 4}
    assert found.kept == {"actor_rollout_ref.rollout.response_length": "${data.max_response_length}"}


def test_a_dump_keeps_only_what_differs_from_verl(run_of: Any) -> None:
    run = run_of(bare=True)
    values = {**run.tree.defaults, "actor_rollout_ref.rollout.n": 6}
    settings = tuple(Setting(key, value, run.place, run.place, written=key) for key, value in values.items())
    found = import_run(replace(run, source="hydra", settings=settings))
    assert dict(found.ours) == {"rollout.n": 6}
    assert found.kept == {}


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("echo hello\n", "run.sh", "nothing in it starts verl's trainer"),
        ("torchrun -m verl.trainer.sft_trainer data.train_files=x\n", "run.sh", "starts sft"),
        ("model: {path: a/b}\nrollout: {n: 4}\ntraining: {ppo_epochs: 1}\n", "a.yaml", "a config of this program"),
        ("[1, 2", "a.yaml", "not valid YAML"),
        ("\xff\xfe", "run.sh", "nothing in it starts"),
        ("a\0b", "run.sh", "a binary file"),
    ],
)
def test_a_file_without_a_launch_is_refused(text: str, name: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=message):
        read_launch(str(file))


def test_unreadable_and_missing_launches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_launch(str(tmp_path / "no.sh"))
    with pytest.raises(ConfigError, match="no launch 3") as caught:
        read_launch(str(LAUNCHES / "several.sh"), 3)
    assert "1 in line 1; 2 in line 2" in (caught.value.fix or "")


def test_a_wholly_unknown_value_is_never_written(run_of: Any) -> None:
    run = run_of("data.train_batch_size=5", bare=True)
    unknown = replace(run.settings[0], value=UNKNOWN, raw="$1", variable="1", reason="arg")
    found = import_run(replace(run, settings=(unknown,)))
    assert (found.ours, found.kept) == ({}, {})
    assert [left.reason for left in found.left_out] == ["arg"]


def test_a_comment_in_another_encoding_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_bytes("# caf\xe9\npython3 -m verl.trainer.main_ppo trainer.nnodes=2\n".encode("latin-1"))
    assert read_launch(str(file)).run.get("trainer.nnodes") == 2


def test_a_part_of_a_config_hands_no_arguments_on(tmp_path: Path) -> None:
    file = tmp_path / "part.yaml"
    file.write_text("actor_rollout_ref:\n  rollout:\n    n: 4\n", encoding="utf-8")
    run = read_launch(str(file)).run
    assert not run.takes_arguments
    assert import_run(run).ours["rollout.n"] == 4
