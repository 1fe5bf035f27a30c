from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from verlcli.cli.app import app
from verlcli.resources import load_schema


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["explain", *arguments])


def test_code_says_what_why_an_example_and_what_instead() -> None:
    lines = run("vrl201").stdout.splitlines()
    assert lines[0].startswith("VRL201: one rollout engine's GPUs do not divide")
    assert [line.split(" ")[0] for line in lines[1:] if not line.startswith(" ")] == [
        "about",
        "why",
        "example",
        "instead",
        "source",
    ]
    assert max(map(len, lines)) <= 120


def test_code_with_several_rules_explains_each() -> None:
    text = run("VRL202").stdout
    assert text.count("VRL202: ") == 2


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("rollout.n", ["takes    a whole number, at least 1", "default  8", "actor_rollout_ref.rollout.n"]),
        ("algorithm.kl_in", ["takes    loss or reward"]),
        ("data.train_batch_size", ["default  null", "default  1024", "in a config of verlcli"]),
        ("trainer.nnodes=4", ["trainer.nnodes: key of verl", "distributed.nnodes"]),
        ("rollout", ["takes    a section", "temperature"]),
        ("actor_rollout_ref.rollout.max_num_seqs", ["1024 (0.5.0 to 0.8.0), 256 (0.9.0 to main)"]),
        ("+actor_rollout_ref.rollout.name", ["none: it has to be given", "vllm", "rollout.name in a config"]),
        ("actor_rollout_ref.actor.checkpoint.contents", ["actor_rollout_ref.actor.checkpoint.save_contents"]),
        ("custom_reward_function.path", ["has no effect", "reward.custom_reward_function.path"]),
        ("actor_rollout_ref.actor.fsdp_config.grad_offload", ["no version of verl has it", "param_offload"]),
        ("async_training.staleness_threshold", ["only in  fully_async"]),
        ("actor_rollout_ref.actor.megatron.tensor_model_parallel_size", ["engines  megatron"]),
        ("worker.actor.global_batch_size", ["EasyR1"]),
        ("actor_rollout_ref.rollout", ["keys", "tensor_model_parallel_size"]),
    ],
)
def test_key_says_what_it_takes_and_what_became_of_it(key: str, words: list[str]) -> None:
    result = run(key)
    assert result.exit_code == 0
    assert [word for word in words if word not in result.stdout] == []


@pytest.mark.parametrize(
    ("topic", "advice"),
    [
        ("VRL999", "near: VRL"),
        ("rollout.nn", "did you mean"),
        ("actor_rollout_ref.actor.ppo_mini_batchsize", "actor_rollout_ref.actor.ppo_mini_batch_size"),
        ("zzz.qqq", "verl schema config"),
    ],
)
def test_what_is_neither_code_nor_key_gets_advice(topic: str, advice: str) -> None:
    result = run(topic)
    assert result.exit_code == 2
    assert advice in result.stderr


@pytest.mark.parametrize("topic", ["VRL201", "VRL001", "rollout.n", "actor_rollout_ref.rollout.n"])
def test_json_is_one_document_of_its_schema(topic: str) -> None:
    document = json.loads(run(topic, "--json").stdout)
    Draft202012Validator(load_schema("explain")).validate(document)
    assert document["topic"] == topic
