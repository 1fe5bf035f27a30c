from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verlcli.config import load_config
from verlcli.config.rules import RULES
from verlcli.config.rules.engines import ATTENTION
from verlcli.config.rules.files import REWARD_NAMES

BASE = ["model.path=some/model", "data.source=arithmetic"]
FILES = ["model.path=some/model", "data.train_files=a.jsonl"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b.jsonl", "score.py"):
        Path(name).write_text("")


# overrides, then code, severity, key, a part of message and suggestion
CASES = [
    (["data.source=arithmetic"], "VRL005", "error", "model.path", "no model"),
    (["model.path=a/b"], "VRL005", "error", "data.train_files", "no data"),
    ([*BASE, "model.shape={hidden_size: 8}"], "VRL120", "error", "model.shape", "both set"),
    ([*BASE, "data.train_files=a.jsonl"], "VRL121", "error", "data.train_files", "would be ignored"),
    ([*BASE, "data.val_files=a.jsonl"], "VRL121", "error", "data.val_files", "would be ignored"),
    ([*FILES, "data.source_args={a: 1}"], "VRL122", "error", "data.source_args.a", "data.source is not set"),
    ([*FILES, "data.val_files=[a.jsonl, b.jsonl]"], "VRL123", "warning", "data.val_files", "held-out"),
    ([*BASE, "reward.weights=[1, 2]"], "VRL124", "error", "reward.weights", "2 weights for 1 reward"),
    ([*BASE, "reward.function=[]"], "VRL125", "error", "reward.function", "no reward"),
    (
        [*BASE, "data.train_batch_size=64", "training.ppo_mini_batch_size=65"],
        "VRL101",
        "error",
        "training.ppo_mini_batch_size",
        "lower it to 64",
    ),
    (
        [*BASE, "data.train_batch_size=60", "training.ppo_mini_batch_size=16"],
        "VRL102",
        "error",
        "training.ppo_mini_batch_size",
        "nearest values that divide it: 15 and 20",
    ),
    ([*BASE, "rollout.n=1"], "VRL103", "error", "rollout.n", "algorithm.name: ppo"),
    (
        [*BASE, "algorithm={clip_ratio: 0.3, clip_ratio_low: 0.1, clip_ratio_high: 0.2}"],
        "VRL110",
        "warning",
        "algorithm.clip_ratio",
        "no effect",
    ),
    ([*BASE, "algorithm.clip_ratio_high=0.1"], "VRL111", "warning", "algorithm.clip_ratio_high", "0.8 ... 1.1"),
    ([*BASE, "actor.rollout_engine=hf", "rollout.name=vllm"], "VRL130", "error", "actor.rollout_engine", "keep one"),
    ([*BASE, "rollout.cpu_offload=true"], "VRL131", "warning", "rollout.cpu_offload", "nothing is offloaded"),
    ([*BASE, "rollout.cpu_offload_ratio=0.5"], "VRL131", "warning", "rollout.cpu_offload_ratio", "nothing is"),
    (
        [*BASE, "rollout={buffer_size: 8, batch_size_per_worker: 9}"],
        "VRL132",
        "error",
        "rollout.batch_size_per_worker",
        "8",
    ),
    ([*BASE, "verl.a=1"], "VRL133", "warning", "verl.a", "backend: verl"),
    ([*BASE, "model.attn_implementation=spda"], "VRL134", "error", "model.attn_implementation", "did you mean 'sdpa'?"),
    ([*BASE, "reward.function=numerc"], "VRL126", "error", "reward.function", "did you mean 'numeric'?"),
    (
        [*BASE, "reward.function=[numeric, zz]"],
        "VRL126",
        "error",
        "reward.function",
        "or FILE.py:FUNCTION",
    ),
    ([*BASE, "reward.function=no.py:judge"], "VRL127", "error", "reward.function", "no such reward file"),
    ([*BASE, "model.path=./no-such"], "VRL128", "warning", "model.path", "no such model here"),
    ([*BASE, "reference.path=/no/such.gguf"], "VRL128", "warning", "reference.path", "no such model here"),
    ([*FILES, "data.val_files=[c.jsonl, d.jsonl]"], "VRL129", "warning", "data.val_files", "c.jsonl and 1 more"),
    (
        [*BASE, "actor.optim.warmup_steps=9", "trainer.total_steps=9"],
        "VRL140",
        "warning",
        "actor.optim.warmup_steps",
        "whole",
    ),
    (
        [*BASE, "algorithm.name=ppo", "critic.optim.warmup_steps=9", "trainer.total_steps=8"],
        "VRL140",
        "warning",
        "critic.optim.warmup_steps",
        "9 steps fills the whole run of 8",
    ),
]
FINE = [
    BASE,
    FILES,
    ["model.shape={hidden_size: 8}", "data.source=arithmetic"],
    [*FILES, "data.val_files=b.jsonl"],
    [*BASE, "training.ppo_mini_batch_size=64"],
    [*BASE, "training.ppo_mini_batch_size=16"],
    [*BASE, "rollout.n=1", "algorithm.name=ppo"],
    [*BASE, "algorithm.kl_in=reward"],
    [*BASE, "training.ppo_mini_batch_size=65"],
    [*BASE, "model.attn_implementation=kernels-community/flash-attn"],
    [*BASE, "model.attn_implementation=flash_attention_2"],
    [*BASE, "reward.function=[score.py:judge, score.py, math_verify]"],
    [*BASE, "critic.optim.warmup_steps=9", "trainer.total_steps=9"],
    [*BASE, "actor.optim.warmup_steps=8", "trainer.total_steps=9"],
    [*BASE, "algorithm={clip_ratio_low: 0.2, clip_ratio_high: 0.28}"],
    [*BASE, "reward={function: [numeric, format], weights: [1, 0.5]}"],
    [*BASE, "reward.function=[]", "reward_model.path=a/b"],
    [*BASE, "rollout.name=vllm", "actor.rollout_engine=vllm"],
    [*BASE, "rollout={cpu_offload: true, cpu_offload_ratio: 0.3}"],
    [*BASE, "verl.a=1", "backend=verl"],
]


@pytest.mark.parametrize(("overrides", "code", "severity", "key", "part"), CASES)
def test_conflict_is_found_at_the_key_to_change(
    load: Any, overrides: list[str], code: str, severity: str, key: str, part: str
) -> None:
    problems = load("backend: local\n" if "backend=verl" not in overrides else "{}\n", *overrides).problems
    assert [(p.code, p.severity) for p in problems] == [(code, severity)]
    assert key.startswith(problems[0].path)
    assert part in f"{problems[0].message} {problems[0].suggestion}"


@pytest.mark.parametrize("overrides", FINE)
def test_consistent_config_has_no_problems(load: Any, overrides: list[str]) -> None:
    assert [problem for problem in load("backend: local\n", *overrides).problems if not problem.unchecked] == []


def test_conflict_points_at_the_key_that_somebody_wrote(load: Any) -> None:
    (problem,) = load(
        "model: {path: a/b}\ndata:\n  source: arithmetic\n  train_batch_size: 4\n",
        "training.ppo_mini_batch_size=8",
        "~training.ppo_mini_batch_size",
        "training.ppo_mini_batch_size=8",
    ).problems
    assert problem.origin == "-o #3"
    (problem,) = load(
        "model: {path: a/b}\ndata: {source: arithmetic}\nalgorithm:\n  name: grpo\nrollout:\n  n: 1\n"
    ).problems
    assert (problem.path, problem.line, problem.column) == ("rollout.n", 6, 6)


def test_missing_key_points_at_its_section_or_the_file(load: Any) -> None:
    problems = load("trainer: {seed: 1}\nmodel:\n  dtype: bf16\n").problems
    assert [(p.path, p.line) for p in problems] == [("data.train_files", 1), ("model.path", 3)]


def test_rules_stay_silent_about_values_that_are_wrong_in_themselves(load: Any) -> None:
    problems = load("model: {path: 3}\ndata: {source: arithmetic, train_batch_size: x}\n", "rollout.n=1").problems
    assert [p.code for p in problems] == ["VRL002", "VRL002", "VRL103"]


def test_each_rule_says_its_code_first() -> None:
    codes = [(rule.__doc__ or "").split(":")[0] for rule in RULES]
    assert all(code.startswith("VRL") and len(code) == 6 for code in codes)


def test_names_of_rewards_are_those_of_the_engine() -> None:
    from verlcli.engine.rewards.builtin import BUILTIN_REWARDS

    assert set(BUILTIN_REWARDS) == set(REWARD_NAMES)


def test_names_of_attention_are_those_of_transformers() -> None:
    modeling = pytest.importorskip("transformers.modeling_utils")
    assert {name for name in modeling.ALL_ATTENTION_FUNCTIONS if "|" not in name} <= set(ATTENTION)


def test_data_that_a_preset_stands_for_is_no_problem() -> None:
    assert load_config(["7b-single-node"], env={}).problems == ()


@pytest.mark.parametrize("args", ["", ", source_args: {max_operand: 9}"])
@pytest.mark.parametrize("taken", ["remove data.train_files", "or data.source"])
def test_either_fix_of_files_beside_a_generator_loads(load: Any, args: str, taken: str) -> None:
    parts = {"remove data.train_files": f"source: arithmetic{args}", "or data.source": "train_files: a.jsonl"}
    both = load(f"model: {{path: a/b}}\ndata: {{source: arithmetic, train_files: a.jsonl{args}}}\n").problems
    assert taken in str(both[0].suggestion)
    assert ("and data.source_args" in str(both[0].suggestion)) is bool(args)
    assert load(f"model: {{path: a/b}}\ndata: {{{parts[taken]}}}\n").problems == ()
