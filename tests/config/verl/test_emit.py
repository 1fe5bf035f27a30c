"""What a config says to verl, as overrides that bash and Hydra read back, and as a launch that the rules check."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config import load_config
from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.resolve import resolve
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.emit import hydra_overrides, hydra_text, launch_command, shell_word
from verlcli.config.verl.overrides import parse_override
from verlcli.config.verl.translate import Translation, run_of_config, shadowed_keys, translate
from verlcli.config.verl.values import parse_value
from verlcli.facts import parse_cluster

Told = Callable[..., dict[str, Any]]
A = "actor_rollout_ref"
ON_TOP = "extends: verl-defaults\nbackend: verl\n"


def translated(text: str, *overrides: str, folder: Path, version: str | None = None) -> Translation:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    return translate(resolve([file], overrides, env={}), version)


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """Keys of verl with their values for a config's text."""

    def find(text: str, *overrides: str, version: str | None = None) -> dict[str, Any]:
        found = translated(text, *overrides, folder=tmp_path, version=version)
        return {each.key: each.value for each in found.told}

    return find


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: {path: org/name, lora_rank: 8}", {f"{A}.model.path": "org/name", f"{A}.model.lora_rank": 8}),
        ("data: {train_max_samples: null}", {"data.train_max_samples": -1}),
        ("data: {train_files: [hf://a, hf://b]}", {"data.train_files": ["hf://a", "hf://b"]}),
        ("data: {train_files: hf://a}", {"data.train_files": "hf://a"}),
        ("data: {num_dataloader_workers: auto}", {}),
        ("trainer: {seed: 3}", {"data.seed": 3}),
        ("algorithm: {name: ppo}", {"algorithm.adv_estimator": "gae"}),
        ("algorithm: {name: grpo}", {"algorithm.adv_estimator": "grpo"}),
        ("algorithm: {clip_ratio_c: null}", {f"{A}.actor.clip_ratio_c": 1e9}),
        ("algorithm: {clip_ratio: 0.3}", {f"{A}.actor.clip_ratio": 0.3}),
        (
            "algorithm: {clip_ratio: 0.3, clip_ratio_low: null}",
            {f"{A}.actor.clip_ratio": 0.3, f"{A}.actor.clip_ratio_low": 0.3},
        ),
        ("algorithm: {kl_coef: 0.001}", {f"{A}.actor.use_kl_loss": True, f"{A}.actor.kl_loss_coef": 0.001}),
        ("algorithm: {kl_coef: 0}", {f"{A}.actor.use_kl_loss": False}),
        (
            "algorithm: {kl_coef: 0.1, kl_in: reward, kl_estimator: k2}",
            {"algorithm.use_kl_in_reward": True, "algorithm.kl_ctrl.kl_coef": 0.1, "algorithm.kl_penalty": "mse"},
        ),
        ("model: {use_recompute: true}", {}),  # verl's default already
        ("model: {enable_gradient_checkpointing: false}", {f"{A}.model.enable_gradient_checkpointing": False}),
        ("actor: {rollout_engine: sglang}", {f"{A}.rollout.name": "sglang"}),
        ("rollout: {top_k: 0}", {f"{A}.rollout.top_k": -1}),
        ("actor: {dtype: auto}", {}),
        ("actor: {training_engine: fsdp}", {"model_engine": "dp"}),
        ("actor: {training_engine: mcore}", {"model_engine": "megatron"}),
        ("trainer: {save_freq: 0}", {"trainer.save_freq": 1_000_000_000}),  # only at the end, which -1 is not
        ("trainer: {total_steps: 7}", {"trainer.total_training_steps": 7, "trainer.total_epochs": 7}),
        (
            "trainer: {total_steps: 7}\nverl: {trainer: {total_epochs: 2}}",
            {"trainer.total_training_steps": 7, "trainer.total_epochs": 2},
        ),
        ("trainer: {resume: never}", {"trainer.resume_mode": "disable"}),
        (
            "trainer: {resume: 20}",
            {
                "trainer.resume_mode": "resume_path",
                "trainer.resume_from_path": "${trainer.default_local_dir}/global_step_20",
            },
        ),
        ("trainer: {loggers: [jsonl, wandb]}", {"trainer.logger": ["console", "file", "wandb"]}),
        (
            "training: {ppo_mini_batch_size: null}\ndata: {train_batch_size: 48}",
            {"data.train_batch_size": 48, f"{A}.actor.ppo_mini_batch_size": 48},
        ),
        (
            "reward_model: {path: org/judge}",
            {"reward.reward_model.enable": True, "reward.reward_model.model_path": "org/judge"},
        ),
        ("reward: {function: [gsm8k]}", {}),
        ("verl: {trainer: {balance_batch: false}}", {"trainer.balance_batch": False}),
        ("verl: {trainer.nnodes: 3}", {"trainer.nnodes": 3}),
        ("verl: {data: {tokenizer: {}}}", {"data.tokenizer": {}}),
        ("verl: {a: {b: {'model.layers.{*}': {}, c: 1}}}", {"a.b": {"model.layers.{*}": {}, "c": 1}}),
    ],
)
def test_what_a_file_says_on_top_of_verl_s_defaults(text: str, expected: dict[str, Any], told: Told) -> None:
    found = told(f"{ON_TOP}{text}\n")
    assert found == expected
    assert [type(value) for value in found.values()] == [type(expected[key]) for key in found]


def test_our_own_defaults_are_told_where_they_differ_from_verl_s(told: Told) -> None:
    found = told("backend: verl\nmodel: {path: org/name}\nrollout: {name: vllm}\n")
    assert found[f"{A}.rollout.tensor_model_parallel_size"] == 1
    assert found[f"{A}.rollout.n"] == 8
    assert found["algorithm.adv_estimator"] == "grpo"
    assert found[f"{A}.actor.use_kl_loss"] is True
    assert found[f"{A}.model.enable_gradient_checkpointing"] is False
    assert found["data.train_batch_size"] == found[f"{A}.actor.ppo_mini_batch_size"] == 64
    assert found["trainer.total_epochs"] == 100
    assert f"{A}.rollout.gpu_memory_utilization" not in found  # the same on both sides
    assert "trainer.nnodes" not in found


def test_micro_batches_go_to_every_pass_that_verl_sizes_apart(told: Told) -> None:
    base = f"{ON_TOP}training: {{ppo_micro_batch_size_per_gpu: 4}}\n"
    sizes = {
        f"{A}.actor.ppo_micro_batch_size_per_gpu": 4,
        f"{A}.rollout.log_prob_micro_batch_size_per_gpu": 4,
        "critic.ppo_micro_batch_size_per_gpu": 4,
    }
    assert told(base) == sizes
    grpo = told(base + "algorithm: {name: grpo, kl_coef: 0.1}\n")
    assert grpo[f"{A}.ref.log_prob_micro_batch_size_per_gpu"] == 4
    assert "critic.ppo_micro_batch_size_per_gpu" not in grpo
    dynamic = told(base, "training.use_dynamic_bsz=true")
    assert not [key for key in dynamic if "log_prob" in key]
    own = told(base + f"verl: {{{A}: {{rollout: {{log_prob_micro_batch_size_per_gpu: 9}}}}}}\n")
    assert own[f"{A}.rollout.log_prob_micro_batch_size_per_gpu"] == 9


def test_a_key_of_verl_wins_unless_a_higher_layer_says_ours(told: Told) -> None:
    text = f"{ON_TOP}rollout: {{n: 4}}\nverl: {{{A}: {{rollout: {{n: 6}}}}}}\n"
    assert told(text) == {f"{A}.rollout.n": 6}
    assert told(text, "rollout.n=2") == {f"{A}.rollout.n": 2}
    assert told(text, "rollout.n=2", f"verl.{A}.rollout.n=3") == {f"{A}.rollout.n": 3}


def test_megatron_has_its_own_names_and_versions_have_theirs(told: Told) -> None:
    lora = f"{ON_TOP}model: {{lora_rank: 8, lora_alpha: 4}}\n"
    mcore = told(lora, "actor.training_engine=mcore", "training.fsdp_config.param_offload=true")
    assert mcore[f"{A}.model.lora.rank"] == 8
    assert mcore[f"{A}.model.lora.alpha"] == 4
    assert mcore[f"{A}.actor.megatron.param_offload"] is True
    assert told(lora)[f"{A}.model.lora_rank"] == 8
    scheduler = f"{ON_TOP}actor: {{optim: {{lr_scheduler: cosine}}}}\n"
    assert told(scheduler, version="0.5.0") == {f"{A}.actor.optim.warmup_style": "cosine"}
    assert told(scheduler) == {f"{A}.actor.optim.lr_scheduler_type": "cosine"}


def test_what_verl_cannot_be_told_is_named(tmp_path: Path) -> None:
    text = f"{ON_TOP}rollout: {{max_staleness: 2, n: 4}}\nreward: {{function: gsm8k}}\ntraining: {{ppo_epochs: 1}}\n"
    assert translated(text, folder=tmp_path).left_out == ("reward.function", "rollout.max_staleness")


def test_keys_decided_under_verl_are_shadowed(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"backend: verl\nverl: {{data: {{train_files: '${{oc.env:HOME}}/x'}}, {A}: {{model: {{path: a}}}}}}\n"
    )
    assert shadowed_keys(load_config([file], env={})) == {"data.train_files", "model.path"}
    never = {"trainer.total_steps", "trainer.save_freq", "trainer.test_freq"}
    assert shadowed_keys(resolve(["verl-defaults"], env={})) == never  # said under `verl:` by the preset
    assert shadowed_keys(resolve(["verl-defaults"], ["trainer.save_freq=5"], env={})) == never - {"trainer.save_freq"}


def test_overrides_have_groups_first_and_then_plus_plus(tmp_path: Path) -> None:
    text = f"{ON_TOP}actor: {{training_engine: mcore}}\nrollout: {{n: 4}}\nverl: {{~trainer.device: null, a@b.c: d}}\n"
    found = hydra_overrides(translated(text, folder=tmp_path))
    assert found == ["model_engine=megatron", "a@b.c=d", f"++{A}.rollout.n=4", "~trainer.device"]
    old = hydra_overrides(translated(text, folder=tmp_path, version="0.7.1"))
    assert old[0] == "--config-name=ppo_megatron_trainer.yaml"
    assert launch_command(found) == (
        f"python3 -m verl.trainer.main_ppo \\\n    model_engine=megatron \\\n    a@b.c=d \\\n    ++{A}.rollout.n=4 \\\n"
        "    '~trainer.device'"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "True"),
        (1e-6, "1e-06"),
        ("org/Name-7B.v1", "org/Name-7B.v1"),
        ("true", "'true'"),
        ("12", "'12'"),
        ("", "''"),
        ("~/models", "'~/models'"),
        ("${oc.env:HOME}/x", "${oc.env:HOME}/x"),
        ("a, b", "'a, b'"),
        ("it's", r"'it\'s'"),
        ("ends\\", r"'ends\\'"),
        (["a", 1, None], "[a,1,null]"),
        ({"model.layers.{*}": {}}, r"{model.layers.\{*\}:{}}"),
        ({"a": {"b c": "x:y"}}, r"{a:{b\ c:'x:y'}}"),
    ],
)
def test_values_as_hydra_writes_them(value: Any, text: str) -> None:
    assert hydra_text(value) == text
    assert parse_value(text) == value


_SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | st.text(max_size=12)
_NAMES = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
_PLAIN = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=6
)


@given(_PLAIN)
def test_every_value_comes_back_from_bash_and_hydra(value: Any) -> None:
    override = f"++some.key={hydra_text(value)}"
    assert shlex.split(shell_word(override)) == [override]
    found = parse_override(override)
    assert (found.key, found.prefix) == ("some.key", "++")
    assert found.value == value
    assert type(found.value) is type(value)


def problems(text: str, folder: Path, *overrides: str, cluster: str | None = None) -> list[Problem]:
    file = folder / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    context = Context(parse_cluster(cluster) if cluster else None)
    return list(check_rules(run_of_config(resolve([file], overrides, env={}), context)))


def test_a_rule_about_launches_reports_our_line_and_our_key(tmp_path: Path) -> None:
    rollout = "rollout:\n  name: vllm\n  tensor_model_parallel_size: 3\n"
    text = f"backend: verl\nmodel: {{path: a/b}}\n{rollout}distributed:\n  gpus_per_node: 8\n"
    (found,) = [problem for problem in problems(text, tmp_path) if problem.code == "VRL201"]
    assert (found.file, found.line, found.column) == (str(tmp_path / "mine.yaml"), 5, 31)
    assert found.path == "rollout.tensor_model_parallel_size"
    assert "3" in found.message
    assert "8" in found.message
    assert [(other.path, other.place.line) for other in found.related if other.path == "distributed.gpus_per_node"] == [
        ("distributed.gpus_per_node", 7)
    ]


def test_keys_under_verl_and_short_forms_and_overrides_keep_their_spelling(tmp_path: Path) -> None:
    text = f"{ON_TOP}model: {{path: a/b}}\nverl:\n  {A}:\n    rollout: {{name: vllm, tensor_model_parallel_size: 3}}\n"
    (found,) = [problem for problem in problems(text, tmp_path) if problem.code == "VRL201"]
    assert found.path == f"verl.{A}.rollout.tensor_model_parallel_size"
    assert found.line == 6
    short = f"{ON_TOP}model: {{path: a/b}}\n{A}: {{tensor_model_parallel_size: 3}}\n"
    (found,) = [problem for problem in problems(short, tmp_path) if problem.code == "VRL201"]
    assert (found.path, found.line) == (f"{A}.tensor_model_parallel_size", 4)
    (found,) = [
        problem
        for problem in problems(ON_TOP, tmp_path, "rollout.tensor_model_parallel_size=3")
        if problem.code == "VRL201"
    ]
    assert (found.file, found.origin) == (None, "-o #1")


def test_a_good_config_gives_the_rules_no_cause(tmp_path: Path) -> None:
    text = "backend: verl\nmodel: {path: a/b}\nrollout: {name: vllm, tensor_model_parallel_size: 4}\n"
    assert not [problem for problem in problems(text, tmp_path) if problem.code == "VRL201"]


def test_a_run_knows_its_file_its_version_and_the_removed_keys(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"{ON_TOP}actor: {{training_engine: fsdp}}\nverl: {{~trainer.device: null, a@b.c: d}}\n")
    run = run_of_config(resolve([file], env={}), Context(verl_version="0.8.0"))
    assert (run.source, run.version, run.engine) == ("config", "0.8.0", "dp")
    assert (run.place.file, run.place.line) == (str(file), 1)
    prefixes = {setting.key: setting.prefix for setting in run.settings}
    assert prefixes == {"model_engine": "", "trainer.device": "~", "a@b.c": ""}
    assert run_of_config(resolve([{"backend": "verl"}], env={}), Context()).place.origin == "the config"
