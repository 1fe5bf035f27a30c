"""Keys of forks."""

from __future__ import annotations

import pytest

from verlcli.facts.verl import entry_of_module, key_tree
from verlcli.facts.verl.forks import FORK_ENTRIES, FORKS, Fork, fork_of

TREES = [key_tree("0.9.1", "main_ppo", engine) for engine in ("dp", "megatron")]


def test_many_keys_of_many_forks() -> None:
    assert len(FORKS) >= 60
    assert len({fork.name for fork in FORKS}) >= 6
    assert len({(fork.name, fork.key) for fork in FORKS}) == len(FORKS)


@pytest.mark.parametrize("fork", FORKS, ids=lambda fork: fork.key)
def test_is_no_key_of_verl_and_points_to_one(fork: Fork) -> None:
    assert not any(tree.has(fork.key) for tree in TREES)
    if fork.upstream is not None:
        upstream = fork.upstream
        assert any(tree.has(upstream) or tree.is_extra(upstream) or tree.is_free_form(upstream) for tree in TREES)


def test_fork_of() -> None:
    found = fork_of("worker.actor.global_batch_size")
    assert found is not None
    assert (found.name, found.upstream) == ("EasyR1", "actor_rollout_ref.actor.ppo_mini_batch_size")
    section = fork_of("worker.actor.something_new")
    assert section is not None
    assert section.name == "EasyR1"
    assert fork_of("trainer.nnodes") is None
    assert fork_of("") is None


def test_fork_entries_are_not_those_of_verl() -> None:
    for entry in FORK_ENTRIES:
        assert entry_of_module(entry.module) is None
