"""The trees of keys: against composed ones, and what may be added to them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from verlcli.errors import ConfigError
from verlcli.facts.verl import UNRESOLVED, VERSIONS, engines, entries, key_tree, which_trees, which_versions
from verlcli.facts.verl.data import facts

SAMPLE = [line.split("\t") for line in (Path(__file__).parent / "sample_0.9.1.tsv").read_text().splitlines()]
TREES = [name.split("/") for name in facts().trees]
ROLLOUT = "actor_rollout_ref.rollout"


@pytest.mark.parametrize(("engine", "key", "value"), SAMPLE)
def test_agrees_with_what_hydra_composes(engine: str, key: str, value: str) -> None:
    assert key_tree("0.9.1", "main_ppo", engine).default(key) == ast.literal_eval(value)


def test_counts_of_the_composed_trees() -> None:
    # 898 and 942 leaves in the composed trees, and the choice of the engine itself
    assert len(key_tree("0.9.1").keys()) == 899
    assert len(key_tree("0.9.1", engine="megatron").keys()) == 943


def test_versions_are_those_of_the_file() -> None:
    assert facts().versions == VERSIONS
    assert {name for name, _, _ in TREES} == set(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_has_the_main_entry_on_both_engines(version: str) -> None:
    assert {"dp", "megatron"} <= set(engines(version))
    for key in ("data.train_files", "trainer.n_gpus_per_node", f"{ROLLOUT}.n", "algorithm.adv_estimator"):
        assert key_tree(version).has(key)


@pytest.mark.parametrize(("version", "tree", "engine"), TREES)
def test_defaults_resolve(version: str, tree: str, engine: str) -> None:
    found = key_tree(version, tree, engine)
    unresolved = {key for key in found.defaults if found.value(key, {}) is UNRESOLVED}
    mandatory = {key for key in found.defaults if found.default(key) == "???"}
    dangling = {key for key in unresolved - mandatory if "${" in str(found.default(key))}
    assert unresolved == mandatory | dangling
    assert not dangling or tree not in ("main_ppo", "fully_async", "one_step_off", "sft")


def test_sections_and_leaves() -> None:
    tree = key_tree()
    assert tree.is_section(ROLLOUT)
    assert not tree.is_section(f"{ROLLOUT}.n")
    assert "rollout" in tree.children("actor_rollout_ref")
    assert {"data", "trainer", "critic"} <= set(tree.children(""))
    assert tree.children("data.train_files") == ()
    assert not tree.has("actor_rollout_ref.rollout.nn")
    with pytest.raises(KeyError):
        tree.default(ROLLOUT)


@pytest.mark.parametrize(
    ("key", "free"),
    [
        (f"{ROLLOUT}.engine_kwargs.vllm", True),
        (f"{ROLLOUT}.engine_kwargs.vllm.swap_space", True),
        (f"{ROLLOUT}.engine_kwargs.vlm.swap_space", False),
        (f"{ROLLOUT}.engine_kwargs", False),
        ("actor_rollout_ref.model.override_config.attn_implementation", True),
        ("data.apply_chat_template_kwargs.enable_thinking", True),
        ("ray_kwargs.ray_init.address", True),
        ("reward.reward_kwargs.overlong_buffer_cfg.enable", True),
        (f"{ROLLOUT}.val_kwargs.seed", False),
        ("distillation.teacher_models.math.model_path", True),
        ("trainer.nodes", False),
    ],
)
def test_where_anything_may_be_added(key: str, free: bool) -> None:
    assert key_tree().is_free_form(key) is free


def test_megatron_options_may_be_added_beside_those_that_are_there() -> None:
    section = "actor_rollout_ref.actor.megatron.override_transformer_config"
    tree = key_tree(engine="megatron")
    assert tree.has(f"{section}.recompute_granularity")
    assert tree.is_free_form(f"{section}.moe_router_dtype")
    assert tree.is_free_form(f"{section.replace('.actor.', '.ref.')}.moe_router_dtype")


def test_fields_that_the_yaml_does_not_show() -> None:
    tree = key_tree()
    assert {"enable_sleep_mode", "limit_images", "repetition_penalty"} <= set(tree.extra_fields(ROLLOUT))
    assert tree.is_extra(f"{ROLLOUT}.enable_sleep_mode")
    assert tree.extras[f"{ROLLOUT}.enable_sleep_mode"] is True
    assert tree.is_extra(f"{ROLLOUT}.server.timeout")
    assert not tree.is_extra(f"{ROLLOUT}.n")
    assert not tree.is_extra(f"{ROLLOUT}.bogus")
    assert "agent" not in tree.extra_fields(ROLLOUT)


@pytest.mark.parametrize(
    ("version", "section", "dies"),
    [
        ("0.9.1", ROLLOUT, True),
        ("0.9.1", "actor_rollout_ref.actor.optim", True),
        ("0.9.1", "trainer", False),
        ("0.9.1", "data", False),
        ("0.9.1", "algorithm", False),
        ("0.9.1", "reward", False),
        ("0.5.0", ROLLOUT, False),
    ],
)
def test_where_an_unknown_key_dies(version: str, section: str, dies: bool) -> None:
    assert key_tree(version).rejects_unknown(section) is dies


def test_values_follow_overrides() -> None:
    tree = key_tree()
    key = "actor_rollout_ref.ref.log_prob_use_dynamic_bsz"
    assert tree.value(key, {}) is False
    assert tree.value(key, {"actor_rollout_ref.actor.use_dynamic_bsz": True}) is True
    assert tree.value("trainer.default_local_dir", {"trainer.project_name": "p"}) == "checkpoints/p/gsm8k"
    assert tree.value(f"{ROLLOUT}.name", {}) is UNRESOLVED
    assert tree.value("no.such.key", {}) is UNRESOLVED
    assert tree.value("a", {"a": "${b}", "b": "${a}"}) is UNRESOLVED


@pytest.mark.parametrize(
    ("version", "entry", "engine", "text"),
    [
        ("0.3.0", "main_ppo", "dp", "no facts about verl 0.3.0"),
        ("0.9.1", "dapo_ppo", "dp", "no entry point 'dapo_ppo'"),
        ("0.5.0", "main_ppo", "veomni", "does not run on 'veomni'"),
    ],
)
def test_unknown_trees_say_what_there_is(version: str, entry: str, engine: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        key_tree(version, entry, engine)
    assert "choose one of" in str(caught.value)


def test_which_versions() -> None:
    assert which_versions("trainer.use_legacy_worker_impl") == ("0.5.0", "0.6.1", "0.7.1")
    assert which_versions("data.filter_accuracy") == ()  # a recipe's, not verl's own
    assert "0.5.0" in which_versions("data.filter_accuracy", "prime")
    assert which_versions("critic.fsdp")[0] == "0.8.0"
    assert which_versions("nothing.of.the.kind") == ()
    assert which_versions("trainer.npu_profile") == ("0.5.0",)
    assert "fully_async/dp" in which_trees("async_training.partial_rollout", "0.9.1")
    assert "main_ppo/dp" not in which_trees("async_training.partial_rollout", "0.9.1")
    assert which_trees("actor_rollout_ref.actor.megatron", "0.9.1")[0].endswith("/megatron")


def test_entries() -> None:
    assert {"main_ppo", "fully_async", "one_step_off", "sft", "eval"} <= set(entries("0.9.1"))
    assert "dapo" in entries("0.6.1")
    assert engines("0.9.1", "nothing") == ()
