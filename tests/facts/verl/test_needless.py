from __future__ import annotations

from typing import Any

import pytest

from verlcli.facts.verl import VERSIONS, key_tree
from verlcli.facts.verl.needless import NEEDLESS, is_needless


@pytest.mark.parametrize("key", sorted(NEEDLESS))
def test_is_gone_in_the_newest_release_and_was_there_before(key: str) -> None:
    def has(version: str, engine: str) -> bool:
        tree = key_tree(version, "main_ppo", engine)
        return tree.has(key) or tree.is_section(key)

    engine = "megatron" if ".megatron." in key else "dp"
    released = [version for version in VERSIONS if version != "main"]
    assert not has(released[-1], engine)
    assert any(has(version, engine) for version in released)


@pytest.mark.parametrize(
    ("key", "value", "needless"),
    [
        ("trainer.use_legacy_worker_impl", "auto", True),
        ("reward_model.model.fsdp_config.param_offload", True, True),
        ("reward_model.model.input_tokenizer", "a/b", False),
        ("actor_rollout_ref.rollout.use_fire_sampling", False, True),
        ("actor_rollout_ref.rollout.use_fire_sampling", True, False),
        ("reward_model.max_length", None, True),
        ("reward_model.max_length", 0, False),
    ],
)
def test_what_is_off_or_listed_can_go(key: str, value: Any, needless: bool) -> None:
    assert is_needless(key, value) is needless
