"""Which key is meant by one that does not exist."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config.keys import known_keys, schema_at
from verlcli.config.renames import CHOICES, NOTES, RENAMES
from verlcli.config.wording import better_key, edits, folded, key_advice, nearest

LETTERS = st.text(alphabet="abc_", max_size=7)


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ("", "", 0),
        ("lr", "lr", 0),
        ("rl", "lr", 1),
        ("gama", "gamma", 1),
        ("gamma_", "gamma", 1),
        ("gemma", "gamma", 1),
        ("kitten", "sitting", 3),
        ("ca", "abc", 3),  # a swapped pair is not edited again
        ("", "abc", 3),
    ],
)
def test_edits_are_counted(one: str, other: str, count: int) -> None:
    assert edits(one, other) == edits(other, one) == count


@given(LETTERS, LETTERS)
def test_edits_are_a_distance(one: str, other: str) -> None:
    count = edits(one, other)
    assert count == edits(other, one)
    assert (count == 0) == (one == other)
    assert abs(len(one) - len(other)) <= count <= max(len(one), len(other))


@given(LETTERS.filter(bool), st.integers(0, 6), st.sampled_from(string.ascii_lowercase))
def test_one_letter_more_is_one_edit(word: str, at: int, letter: str) -> None:
    assert edits(word[:at] + letter + word[at:], word) == 1


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("train-batch-size", "train_batch_size"),
        ("trainBatchSize", "train_batch_size"),
        ("Train_Batch_Size", "train_batch_size"),
        ("TRAIN_BATCH_SIZE", "train_batch_size"),
        ("train batch size", "train_batch_size"),
        ("ppoEpochs", "ppo_epochs"),
    ],
)
def test_other_spellings_of_a_name_are_folded(written: str, key: str) -> None:
    assert folded(written) == key


def test_every_key_is_its_own_folded_spelling() -> None:
    assert all(folded(part) == part for key in known_keys() for part in key)


def test_equally_near_names_are_both_proposed() -> None:
    assert nearest("clip_ratio_", ("clip_ratio", "clip_ratio_c", "clip_ratio_low")) == ["clip_ratio_c", "clip_ratio"]
    assert nearest("clip_rato", ("clip_ratio", "clip_ratio_c")) == ["clip_ratio"]
    assert nearest("zonk", ("clip_ratio",)) == []


@pytest.mark.parametrize(
    ("path", "advice", "keys"),
    [
        (("rollout", "N"), "did you mean 'n'?", [("rollout", "n")]),
        (("data", "lr"), "belongs under `actor.optim:` or `critic.optim:`", None),
        (("model", "fsdpConfig"), "belongs under `training:` or the top level", None),
        (("data", "actor_rollout_ref"), "belongs at the top level", [("actor_rollout_ref",)]),
        (("critic", "optim", "LearningRate"), "here it is called 'critic.optim.lr'", [("critic", "optim", "lr")]),
        (("modle",), "did you mean 'model'?", [("model",)]),
        (("modle", "path"), "belongs under `model:`, `critic:`, `reference:` or `reward_model:`", None),
        (("reward", "gpu_memory_utilisation"), "did you mean 'rollout.gpu_memory_utilization'?", None),
    ],
)
def test_advice_names_what_is_meant(path: Any, advice: str, keys: Any) -> None:
    found = key_advice(path)
    assert found is not None
    assert found.text == better_key(path) == advice
    assert keys is None or list(found.keys) == keys
    assert all(schema_at(key) is not None for key in found.keys)


def test_nothing_is_proposed_for_a_word_like_no_other() -> None:
    assert key_advice(("reward", "zzz")) is None
    assert better_key(("qqqq",)) is None


def test_every_other_name_and_choice_leads_to_one_of_ours() -> None:
    choices = {choice for key in known_keys() for choice in (schema_at(key) or {}).get("enum", ())}
    assert set(NOTES) <= set(RENAMES)
    assert all(folded(name) == name for name in RENAMES)
    assert {choice for targets in CHOICES.values() for choice in targets} <= choices
    assert not set(CHOICES) & choices
