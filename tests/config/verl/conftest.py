"""Shared by the tests of verl launches: a launch from a list of overrides, and what a rule says about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Place, Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.overrides import parse_override
from verlcli.config.verl.run import Setting, Variable, VerlRun
from verlcli.facts import parse_cluster
from verlcli.facts.verl import key_tree

RunOf = Callable[..., VerlRun]
Codes = Callable[..., list[Problem]]

# The smallest launch without a fault: verl's own defaults leave out what has to be said.
SOUND = (
    "algorithm.adv_estimator=grpo",
    "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.max_model_len=4096",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
)


def _setting(text: str, line: int) -> Setting:
    found = parse_override(text)
    key_place, value_place = Place("run.sh", line, 3), Place("run.sh", line, 3 + found.offset)
    return Setting(found.key, found.value, key_place, value_place, found.prefix, found.raw, found.key)


@pytest.fixture
def run_of() -> RunOf:
    """A launch of `SOUND` and more overrides; `bare=True` leaves `SOUND` out. Override i stands on line i + 1."""

    def make(
        *overrides: str,
        bare: bool = False,
        version: str = "0.9.1",
        entry: str = "main_ppo",
        engine: str = "dp",
        cluster: str | None = None,
        env: dict[str, str | None] | None = None,
        **more: Any,
    ) -> VerlRun:
        texts = overrides if bare else (*SOUND, *overrides)
        settings = tuple(_setting(text, line) for line, text in enumerate(texts, start=2))
        variables = {name: Variable(name, value, Place("run.sh", 1, 1)) for name, value in (env or {}).items()}
        context = Context(parse_cluster(cluster) if cluster else None, more.pop("data", None), version)
        tree = key_tree(version, entry, engine)
        return VerlRun("script", tree, settings, Place("run.sh", 1, 1), variables, context, **more)

    return make


@pytest.fixture
def problems_of(run_of: RunOf) -> Codes:
    """Problems that the rules find in `run_of(...)`."""

    def find(*overrides: str, **more: Any) -> list[Problem]:
        return list(check_rules(run_of(*overrides, **more)))

    return find
