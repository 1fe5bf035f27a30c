"""Renames, removals, ignored keys and changed defaults, each against the trees."""

from __future__ import annotations

from itertools import pairwise

import pytest

from verlcli.facts.verl import VERSIONS, engines, entries, key_tree, versions_of_module, which_versions
from verlcli.facts.verl.history import (
    DEFAULT_FLIPS,
    DEPRECATED,
    MODULE_RENAMES,
    NEVER_EXISTED,
    REMOVED,
    RENAMES,
    SECTION_RENAMES,
    SILENTLY_IGNORED,
    Rename,
    choice_removed,
    flips,
    ignored,
    removal_reason,
    removed_in,
    rename_of,
    without_effect,
)
from verlcli.facts.verl.trees import OWN_ENTRIES
from verlcli.facts.verl.versions import nearest_version


@pytest.mark.parametrize(("old", "rename"), [*RENAMES.items(), *DEPRECATED.items()])
def test_the_new_key_is_there(old: str, rename: Rename) -> None:
    tree = key_tree(nearest_version(rename.since), rename.entry, rename.engine)
    assert tree.has(rename.new)


@pytest.mark.parametrize(("old", "rename"), RENAMES.items())
def test_the_old_key_is_gone(old: str, rename: Rename) -> None:
    assert not key_tree(nearest_version(rename.since), rename.entry, rename.engine).has(old)


@pytest.mark.parametrize("old", DEPRECATED)
def test_a_deprecated_key_is_still_there(old: str) -> None:
    assert key_tree("0.9.1").has(old)


@pytest.mark.parametrize(("old", "rename"), SECTION_RENAMES.items())
def test_moved_sections(old: str, rename: Rename) -> None:
    tree = key_tree(nearest_version(rename.since), rename.entry, rename.engine)
    assert tree.is_section(rename.new.removesuffix(".*"))
    assert not tree.has(old.removesuffix(".*"))


@pytest.mark.parametrize(
    "old", [key for key in SILENTLY_IGNORED if not key.endswith(("reward_kwargs", "overlong_buffer"))]
)
def test_an_ignored_key_composes(old: str) -> None:
    new = SILENTLY_IGNORED[old].new
    assert key_tree("0.9.1").has(old)
    assert new is not None
    assert key_tree("0.9.1").has(new)


def test_nothing_that_once_existed_is_unknown() -> None:
    releases = VERSIONS[:-1]
    for before, after in pairwise(releases):
        for key in _keys(before):
            tell = which_versions(key), rename_of(key, after), removed_in(key, after)
            assert after in tell[0] or tell[1] or tell[2], (key, after)


def _keys(version: str) -> set[str]:
    own = [entry for entry in entries(version) if entry in OWN_ENTRIES]
    return {
        key for entry in own for engine in engines(version, entry) for key in key_tree(version, entry, engine).defaults
    }


@pytest.mark.parametrize("key", REMOVED)
def test_removed_keys_are_gone(key: str) -> None:
    assert "0.9.1" not in which_versions(key)


@pytest.mark.parametrize(("key", "meant"), NEVER_EXISTED.items())
def test_keys_that_never_existed(key: str, meant: str) -> None:
    assert which_versions(key) == ()
    tree = key_tree()
    assert which_versions(meant) or tree.is_free_form(meant)
    assert not without_effect(meant, tree.version)


def test_flips_are_in_the_trees() -> None:
    for key, found in DEFAULT_FLIPS.items():
        for flip in found:
            tree = key_tree(flip.version, "main_ppo", flip.engine or "dp")
            assert tree.default(key) == flip.new, key
            age = VERSIONS.index(flip.version)
            if age:
                before = key_tree(VERSIONS[age - 1], "main_ppo", flip.engine or "dp")
                assert before.defaults.get(key) == flip.old, key


def test_flips_between_two_versions() -> None:
    key = "actor_rollout_ref.model.use_remove_padding"
    assert [flip.version for flip in flips(key, "0.6.1", "0.9.1")] == ["0.7.1"]
    assert [flip.version for flip in flips(key, "0.6.1", "0.9.1", "megatron")] == ["0.8.0"]
    assert flips(key, "0.7.1", "0.9.1") == ()
    assert flips("trainer.nnodes", "0.5.0", "0.9.1") == ()


def test_rename_of() -> None:
    renamed = rename_of("critic.model.fsdp_config.param_offload", "0.9.1")
    assert renamed is not None
    assert (renamed.new, renamed.since) == ("critic.fsdp.param_offload", "0.8")
    assert rename_of("critic.model.fsdp_config.param_offload", "0.7.1") is None
    assert rename_of("trainer.nnodes", "0.9.1") is None
    replay = rename_of("actor_rollout_ref.actor.router_replay.mode", "0.9.1")
    assert replay is not None
    assert replay.new == "actor_rollout_ref.actor.megatron.router_replay.mode"


@pytest.mark.parametrize(
    ("key", "version", "entry", "is_ignored"),
    [
        ("custom_reward_function.path", "0.9.1", "main_ppo", True),
        ("custom_reward_function.path", "0.8.0", "main_ppo", False),
        ("custom_reward_function.path", "0.8.0", "one_step_off", True),
        ("custom_reward_function.path", "0.7.1", "fully_async", True),
        ("custom_reward_function.path", "0.9.1", "fully_async", False),
        ("reward_model.rollout.gpu_memory_utilization", "0.9.1", "main_ppo", True),
        ("actor_rollout_ref.actor.grad_clip", "0.9.1", "main_ppo", True),
        ("actor_rollout_ref.actor.grad_clip", "0.7.1", "main_ppo", False),
        ("reward.custom_reward_function.path", "0.9.1", "main_ppo", False),
    ],
)
def test_ignored(key: str, version: str, entry: str, is_ignored: bool) -> None:
    assert (ignored(key, version, entry) is not None) is is_ignored


def test_removed_in() -> None:
    assert removed_in("data.sampler.class_name", "0.9.1") == "0.8.0"
    assert removed_in("data.sampler.class_name", "0.7.1") is None
    assert removed_in("actor_rollout_ref.actor.megatron.grad_offload", "0.9.1") == "0.9.1"
    assert removed_in("trainer.checkpoint_callback_class", "main") is None
    assert removed_in("no.such.key", "0.9.1") is None
    assert removed_in("actor_rollout_ref.rollout.use_fire_sampling", "0.9.1") == "0.5.0"
    assert removal_reason("data.sampler.class_name").startswith("custom samplers")
    assert removal_reason("trainer.nnodes") == ""


@pytest.mark.parametrize(("old", "new", "since"), [(old, *row) for old, row in MODULE_RENAMES.items()])
def test_modules_that_moved(old: str, new: str, since: str) -> None:
    version = nearest_version(since)
    assert version in versions_of_module(new)
    assert "0.9.1" not in versions_of_module(old)


@pytest.mark.parametrize(
    ("key", "value", "version", "expected"),
    [
        ("actor_rollout_ref.rollout.mode", "sync", "0.9.1", ("0.7", "async")),
        ("actor_rollout_ref.rollout.mode", "sync", "0.6.1", (None, None)),
        ("actor_rollout_ref.rollout.load_format", "dummy_hf", "0.8.0", ("0.6", "dummy")),
        ("actor_rollout_ref.rollout.load_format", "megatron", "0.8.0", ("0.6", None)),
        ("actor_rollout_ref.rollout.mode", "never", "0.9.1", (None, None)),
        ("trainer.project_name", "x", "0.9.1", (None, None)),
    ],
)
def test_choices_that_are_gone(key: str, value: str, version: str, expected: tuple[str | None, str | None]) -> None:
    assert choice_removed(key, value, version) == expected
