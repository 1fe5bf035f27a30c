"""Types, choices and ranges; verl's own defaults must pass all of them."""

from __future__ import annotations

import pytest

from verlcli.facts.verl import UNRESOLVED, VERSIONS, engines, key_tree
from verlcli.facts.verl.types import bounds, choices, expected_type, is_of_type, strategies

TREES = [(version, engine) for version in VERSIONS for engine in engines(version)]
ROLLOUT = "actor_rollout_ref.rollout"


@pytest.mark.parametrize(("version", "engine"), TREES)
def test_defaults_are_of_the_expected_type_and_in_range(version: str, engine: str) -> None:
    tree = key_tree(version, "main_ppo", engine)
    for key in tree.defaults:
        value = tree.value(key, {})
        kind, allowed, limits = expected_type(key, version), choices(key, version), bounds(key)
        if value is UNRESOLVED:
            continue
        assert kind is None or is_of_type(value, kind), (key, value, kind)
        if allowed is not None and value is not None:
            assert {str(item) for item in (value if isinstance(value, list) else [value])} <= set(allowed.values), key
        if limits is not None and isinstance(value, (int, float)):
            assert limits.allows(value), (key, value)
            assert limits.plausible(value), (key, value)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (f"{ROLLOUT}.n", "integer"),
        (f"{ROLLOUT}.temperature", "number"),
        (f"{ROLLOUT}.enforce_eager", "boolean"),
        (f"{ROLLOUT}.max_model_len", "integer|null"),
        ("actor_rollout_ref.model.path", "string"),
        ("data.train_batch_size", "integer"),
        ("trainer.total_training_steps", "integer|null"),
        ("data.shuffle", "boolean"),
        ("data.train_files", None),
        ("no.such.key", None),
    ],
)
def test_expected_types(key: str, kind: str | None) -> None:
    assert expected_type(key) == kind


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, "integer", True),
        (1.0, "integer", True),
        (1.5, "integer", False),
        (True, "integer", False),
        (True, "number", False),
        (True, "boolean", True),
        ("five", "integer|null", False),
        (None, "integer|null", True),
        (None, "integer", False),
        ([1], "list|string", True),
        ({}, "map", True),
    ],
)
def test_is_of_type(value: object, kind: str, fits: bool) -> None:
    assert is_of_type(value, kind) is fits


@pytest.mark.parametrize(
    ("key", "version", "value", "known"),
    [
        (f"{ROLLOUT}.name", "0.9.1", "trtllm", True),
        (f"{ROLLOUT}.name", "0.9.1", "hf", False),
        (f"{ROLLOUT}.name", "0.5.0", "hf", True),
        ("reward.reward_model.rollout.name", "0.9.1", "sglang", True),
        (f"{ROLLOUT}.mode", "0.9.1", "sync", False),
        ("algorithm.adv_estimator", "0.5.0", "gdpo", False),
        ("algorithm.adv_estimator", "0.9.1", "gdpo", True),
        ("actor_rollout_ref.actor.loss_agg_mode", "0.8.0", "token-sum", False),
        ("actor_rollout_ref.actor.loss_agg_mode", "0.9.1", "token-sum", True),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", "0.7.1", "cispo", True),
        ("reward.reward_manager.name", "0.9.1", "prime", False),
        ("reward_model.reward_manager", "0.5.0", "prime", True),
        ("trainer.resume_mode", "0.9.1", "autos", False),
        ("actor_rollout_ref.actor.fsdp_config.model_dtype", "0.9.1", "bf17", False),
    ],
)
def test_choices(key: str, version: str, value: str, known: bool) -> None:
    found = choices(key, version)
    assert found is not None
    assert (value in found.values) is known


def test_open_sets_and_free_keys() -> None:
    adv, mode = choices("algorithm.adv_estimator"), choices("trainer.resume_mode")
    assert adv is not None
    assert mode is not None
    assert adv.open
    assert not mode.open
    assert choices("trainer.project_name") is None
    assert choices("trainer.v1.trainer_mode", "0.8.0") is None


def test_strategies() -> None:
    assert "fsdp2" in strategies("dp")
    assert strategies("megatron") == ("megatron",)
    assert "fsdp_turbo" in strategies("dp", "0.9.1")
    assert "fsdp_turbo" not in strategies("dp", "0.8.0")
    assert strategies("deepspeed") == ()


@pytest.mark.parametrize(
    ("key", "value", "legal"),
    [
        (f"{ROLLOUT}.gpu_memory_utilization", 1.7, False),
        (f"{ROLLOUT}.gpu_memory_utilization", 0, False),
        (f"{ROLLOUT}.gpu_memory_utilization", 1, True),
        (f"{ROLLOUT}.n", 0, False),
        (f"{ROLLOUT}.top_k", -1, True),
        (f"{ROLLOUT}.top_k", -2, False),
        ("actor_rollout_ref.actor.clip_ratio_c", 1, False),
        ("actor_rollout_ref.actor.clip_ratio_high", -0.1, False),
        ("actor_rollout_ref.actor.optim.lr", -1e-6, False),
        ("trainer.total_epochs", 0, False),
        ("trainer.n_gpus_per_node", 0, False),
        ("data.train_batch_size", 0, False),
        ("trainer.save_freq", -1, True),
    ],
)
def test_bounds(key: str, value: float, legal: bool) -> None:
    found = bounds(key)
    assert found is not None
    assert found.allows(value) is legal


def test_plausible_and_text() -> None:
    rate, share, count = bounds("critic.optim.lr"), bounds(f"{ROLLOUT}.top_p"), bounds("trainer.save_freq")
    assert rate is not None
    assert share is not None
    assert count is not None
    assert rate.allows(1e6)
    assert not rate.plausible(1e6)
    assert share.text() == "above 0, at most 1"
    assert count.text() == "at least 1, or -1 or 0"
    assert bounds("trainer.project_name") is None


def test_bounds_of_an_entry_point() -> None:
    async_batch, nodes = bounds("data.train_batch_size", "fully_async"), bounds("rollout.nnodes", "fully_async")
    assert async_batch is not None
    assert nodes is not None
    assert (async_batch.allows(0), nodes.allows(0), nodes.allows(-1)) == (True, True, False)
    common = bounds("rollout.nnodes", "one_step_off")
    assert common is not None
    assert not common.allows(0)
