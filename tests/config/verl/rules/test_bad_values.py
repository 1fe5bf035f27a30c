"""No value of any key makes a rule stop: wrong values are the key checks' business, and rules pass over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from verlcli.config.context import DataFacts, NotKnown
from verlcli.config.problems import Place
from verlcli.config.verl.rules import VERL_RULES, VerlRule, _advice
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun

RunOf = Callable[..., VerlRun]
ODD: tuple[Any, ...] = (None, True, -1, 0, 10**12 + 39, 1e-9, "odd", [None], {"a": [1]}, UNKNOWN)
DATA = DataFacts(10, 10, ("prompt",), ("my/set",), too_long=3)
# Overrides that lead rules past their first look.
AHEAD = (
    ("actor_rollout_ref.model.lora_rank=32", "actor_rollout_ref.rollout.layered_summon=True"),
    ("trainer.v1.trainer_mode=separate_async", "algorithm.filter_groups.enable=True", "trainer.use_v1=True"),
    ("actor_rollout_ref.actor.use_dynamic_bsz=True", "actor_rollout_ref.actor.use_kl_loss=True", "trainer.save_freq=1"),
    ("actor_rollout_ref.model.use_fused_kernels=True", "critic.enable=True", "trainer.total_training_steps=9"),
)


class _Recorder(VerlRun):
    """A launch that remembers which keys were asked for."""

    asked: set[str]

    def get(self, key: str) -> Any:
        if "asked" in self.__dict__:  # not in a copy on which advice is tried
            self.asked.add(key)
        return super().get(key)


def _check(rule: VerlRule, run: VerlRun) -> None:
    try:
        for verdict in rule.check(run):
            assert verdict.code == rule.code
            assert verdict.keys
    except NotKnown:
        pass


def _asked(rule: VerlRule, run: VerlRun) -> list[str]:
    recorder = _Recorder(**{name: getattr(run, name) for name in run.__dataclass_fields__})
    object.__setattr__(recorder, "asked", set())
    _check(rule, recorder)
    return sorted(recorder.asked)


@pytest.mark.parametrize(
    ("ahead", "version", "entry", "engine"),
    [
        (AHEAD[0], "0.9.1", "main_ppo", "dp"),
        (AHEAD[1], "0.9.1", "main_ppo", "dp"),
        (AHEAD[2], "0.9.1", "main_ppo", "megatron"),
        (AHEAD[3], "0.7.1", "fully_async", "dp"),
    ],
)
def test_odd_values(
    run_of: RunOf, monkeypatch: pytest.MonkeyPatch, ahead: tuple[str, ...], version: str, entry: str, engine: str
) -> None:
    monkeypatch.setattr(_advice, "_TRIES", 1)  # what is advised is tested elsewhere
    cluster = "8xV100-32G,cpus=8,ram=64G,disk=100G"
    run = run_of(*ahead, version=version, entry=entry, engine=engine, cluster=cluster, data=DATA)
    place, tried = Place("run.sh", 99, 1), 0
    for rule in (rule for rule in VERL_RULES if rule.holds_for(run)):
        for key in _asked(rule, run):
            for value in ODD:
                _check(rule, replace(run, settings=(*run.settings, Setting(key, value, place, place, written=key))))
                tried += 1
    assert tried > 1_000


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "0.7.1", "0.8.0", "0.9.0", "main"])
def test_every_version_and_entry_point_has_answers(run_of: RunOf, version: str) -> None:
    from verlcli.facts.verl import engines, entries

    for entry in entries(version):
        for engine in engines(version, entry):
            given: dict[str, Any] = {"version": version, "entry": entry, "engine": engine}
            for run in (run_of(**given, bare=True, data=DATA), run_of(**given, cluster="8xA100-80G")):
                for rule in VERL_RULES:
                    if rule.holds_for(run):
                        _check(rule, run)
