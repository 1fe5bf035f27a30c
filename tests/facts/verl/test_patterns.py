"""Patterns of keys, against the library's own matching."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.facts.verl.patterns import fits


@given(st.text("ab.", max_size=8), st.text("ab.*", max_size=6))
def test_patterns_fit_as_the_library_says(key: str, pattern: str) -> None:
    assert fits(key, pattern) == fnmatchcase(key, pattern)


@pytest.mark.parametrize(
    ("key", "pattern", "expected"),
    [
        ("actor_rollout_ref.rollout.n", "*rollout.n", True),
        ("rollout.nnodes", "*rollout.n", False),
        ("trainer.max_actor_ckpt_to_keep", "trainer.max_*_ckpt_to_keep", True),
        ("trainer.max_ckpt_to_keep", "trainer.max_*_ckpt_to_keep", False),
        ("a.micro_batch_size_per_gpu", "*micro_batch_size*", True),
        ("aba", "ab*ba", False),
    ],
)
def test_patterns_of_the_tables(key: str, pattern: str, expected: bool) -> None:
    assert fits(key, pattern) is expected
