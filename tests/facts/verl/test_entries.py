"""From a module and a config name to an entry point."""

from __future__ import annotations

import pytest

from verlcli.facts.verl import VERSIONS, config_groups, entry_of_module, versions_of_module
from verlcli.facts.verl.data import facts
from verlcli.facts.verl.entries import modules


@pytest.mark.parametrize(
    ("module", "version", "config", "expected"),
    [
        ("verl.trainer.main_ppo", "0.9.1", None, ("main_ppo", "main_ppo", "dp")),
        ("verl.trainer.main_ppo", "0.9.1", "ppo_megatron_trainer.yaml", ("main_ppo", "main_ppo", "megatron")),
        ("verl.trainer.main_ppo", "0.5.0", "ppo_megatron_trainer", ("main_ppo", "main_ppo", "megatron")),
        ("/opt/verl/verl/trainer/main_ppo.py", "0.7.1", None, ("main_ppo", "main_ppo", "dp")),
        ("recipe.dapo.main_dapo", "0.6.1", None, ("dapo", "dapo", "dp")),
        ("recipe/dapo/main_dapo.py", "0.9.1", None, ("dapo", "dapo", "dp")),
        ("verl.experimental.fully_async_policy.fully_async_main", "0.9.1", None, ("fully_async", "fully_async", "dp")),
        ("recipe.one_step_off_policy.main_ppo", "0.6.1", None, ("one_step_off", "one_step_off", "dp")),
        ("verl.trainer.sft_trainer", "0.9.1", None, ("sft", "sft", "dp")),
        ("verl.trainer.fsdp_sft_trainer", "0.5.0", None, ("sft_legacy", "sft_legacy", "dp")),
        ("verl.trainer.main_generation_server", "0.9.1", None, ("generation_server", "main_ppo", "dp")),
        (
            "verl.trainer.main_ppo",
            "0.6.1",
            "gsm8k_multiturn_grpo",
            ("main_ppo", "main_ppo:gsm8k_multiturn_grpo", "dp"),
        ),
    ],
)
def test_entry_points(module: str, version: str, config: str | None, expected: tuple[str, str, str]) -> None:
    found = entry_of_module(module, version, config)
    assert found is not None
    assert (found.entry, found.tree, found.engine) == expected
    assert found.key_tree().version == version


@pytest.mark.parametrize(
    ("module", "version", "config"),
    [
        ("verl.trainer.main", "0.9.1", None),
        ("verl.trainer.fsdp_sft_trainer", "0.9.1", None),
        ("verl.trainer.main_ppo", "0.9.1", "my_own_config"),
        ("xverl.trainer.main_ppo", "0.9.1", None),
        ("", "0.9.1", None),
    ],
)
def test_no_such_entry_point(module: str, version: str, config: str | None) -> None:
    assert entry_of_module(module, version, config) is None


def test_groups_choose_the_engine() -> None:
    ppo = entry_of_module("verl.trainer.main_ppo")
    sft = entry_of_module("verl.trainer.sft_trainer")
    assert ppo is not None
    assert sft is not None
    assert ppo.with_groups({"model_engine": "megatron"}).engine == "megatron"
    assert ppo.with_groups({"model_engine": "deepspeed"}).engine == "dp"
    assert sft.with_groups({"engine": "veomni", "optim": "veomni"}).engine == "veomni"
    assert sft.with_groups({"engine": "fsdp"}).engine == "dp"


def test_config_groups() -> None:
    groups = {group.name: group for group in config_groups("0.9.1")}
    assert groups["model_engine"].default == "dp"
    assert groups["model_engine"].choices == ("dp", "megatron", "torchtitan", "veomni")
    assert "megatron_actor" in groups["actor@actor_rollout_ref.actor"].choices
    assert "model_engine" not in {group.name for group in config_groups("0.5.0")}
    assert config_groups("0.9.1", "no_such_entry") == ()


def test_every_module_starts_on_a_tree() -> None:
    for key, (_, _, _, _, versions) in facts().modules.items():
        module, _, config = key.partition("/")
        for version in versions:
            found = entry_of_module(module, version, config)
            assert found is not None
            assert found.key_tree().keys()


def test_what_there_is() -> None:
    assert versions_of_module("verl.trainer.main_ppo") == VERSIONS
    assert versions_of_module("verl.trainer.fsdp_sft_trainer") == ("0.5.0", "0.6.1")
    assert versions_of_module("verl.trainer.main") == ()
    assert "verl.trainer.main_ppo" in modules("main")
