"""A config with `backend: verl` is checked as the launch that it becomes, at its own places."""

from __future__ import annotations

from typing import Any

CONFIG = """\
extends: verl-defaults
backend: verl
model: {path: Qwen/Qwen2.5-7B-Instruct}
data: {train_files: hdfs://a/b.parquet}
algorithm: {name: grpo}
rollout:
  name: vllm
  n: 8
training: {use_dynamic_bsz: true}
"""


def said(load: Any, text: str) -> list[tuple[str, str, str, int]]:
    problems = load(text).problems
    return [(p.code, p.severity, p.path, p.line) for p in problems if p.severity != "note"]


def test_sound_config_says_nothing(load: Any) -> None:
    assert said(load, CONFIG) == []


def test_rules_about_launches_point_at_keys_of_ours(load: Any) -> None:
    text = CONFIG.replace("  n: 8\n", "  n: 8\n  tensor_model_parallel_size: 3\n")
    assert ("VRL201", "error", "rollout.tensor_model_parallel_size", 9) in said(load, text)


def test_keys_below_verl_are_checked_where_they_stand(load: Any) -> None:
    text = CONFIG + "verl:\n  trainer:\n    balance_bacth: true\n"
    (problem,) = [p for p in load(text).problems if p.code == "VRL240"]
    assert (problem.path, problem.line) == ("verl.trainer.balance_bacth", 12)
    assert "balance_batch" in (problem.suggestion or "")


def test_a_key_and_its_counterpart_contradict_each_other(load: Any) -> None:
    text = CONFIG + "verl: {actor_rollout_ref: {rollout: {n: 4}}}\n"
    (problem,) = [p for p in load(text).problems if p.code == "VRL135"]
    assert (problem.severity, problem.path, problem.line) == ("error", "rollout.n", 8)
    assert [(other.path, other.value) for other in problem.related] == [("verl.actor_rollout_ref.rollout.n", "4")]
    same = CONFIG + "verl: {actor_rollout_ref: {rollout: {n: 8}}}\n"
    assert "VRL135" not in {p.code for p in load(same).problems}


def test_data_that_nobody_names_are_verls_own_default(load: Any) -> None:
    text = CONFIG.replace("data: {train_files: hdfs://a/b.parquet}\n", "")
    assert [found[:3] for found in said(load, text)] == [("VRL005", "warning", "data.train_files")]


def test_a_micro_batch_left_to_the_planner_is_verls_token_budget(load: Any) -> None:
    text = CONFIG.replace("extends: verl-defaults\n", "").replace("training: {use_dynamic_bsz: true}\n", "")
    assert "VRL210" not in {p.code for p in load(text).problems}
    asked = text + "training: {use_dynamic_bsz: false}\n"
    assert "VRL210" in {p.code for p in load(asked).problems}


def test_advice_is_written_as_yaml(load: Any) -> None:
    text = (
        CONFIG
        + """\
verl:
  actor_rollout_ref:
    rollout: {max_model_len: 40000, free_cache_engine: false, gpu_memory_utilization: 0.9}
    actor: {fsdp_config: {dtype: float16}}
  data: {max_prompt_length: 20000, max_response_length: 20000}
"""
    )
    advice = [problem.suggestion for problem in load(text).problems if problem.suggestion]
    positions = "verl.actor_rollout_ref.model.override_config.max_position_embeddings: 40000"
    assert [found for found in advice if found.endswith(f"set {positions}")]
    assert "set training.fsdp_config.mixed_precision: fp16" in advice
    assert [found for found in advice if "verl.actor_rollout_ref.rollout.free_cache_engine: true" in found]
    assert not [found for found in advice if "=" in found or "++" in found]
