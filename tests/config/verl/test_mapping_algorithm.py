"""What verl is told for each algorithm, and that an import of it says the same."""

from __future__ import annotations

from typing import Any

import pytest

from verlcli.config.algorithms import ALGORITHMS
from verlcli.config.context import Context
from verlcli.config.resolve import resolve
from verlcli.config.verl.importer import import_run
from verlcli.config.verl.translate import run_of_translation, translate

ACTOR = "actor_rollout_ref.actor"
BUFFER = "reward.reward_kwargs.overlong_buffer_cfg"


def told(*overrides: str, version: str = "0.9.1") -> dict[str, Any]:
    base = ["backend=verl", "model.path=a/b", "data.train_files=a.parquet", "data.max_response_length=20480"]
    found = translate(resolve([], [*base, *(f"algorithm.{each}" for each in overrides)], env={}), version)
    return {each.key: each.value for each in found.told}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ppo", {"algorithm.adv_estimator": "gae"}),
        ("grpo", {"algorithm.adv_estimator": "grpo"}),
        (
            "dr_grpo",
            {
                "algorithm.adv_estimator": "grpo",
                "algorithm.norm_adv_by_std_in_grpo": False,
                f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm",
            },
        ),
        (
            "dapo",
            {
                "algorithm.adv_estimator": "grpo",
                f"{ACTOR}.clip_ratio_high": 0.28,
                "algorithm.filter_groups.enable": True,
                "algorithm.filter_groups.max_num_gen_batches": 10,
                "reward.reward_manager.name": "dapo",
                f"{BUFFER}.enable": True,
                f"{BUFFER}.len": 4096,
                f"{BUFFER}.penalty_factor": 1.0,
                "reward.reward_kwargs.max_resp_len": 20480,
            },
        ),
        ("rloo", {"algorithm.adv_estimator": "rloo", "algorithm.use_kl_in_reward": True}),
        ("reinforce_plus_plus", {"algorithm.adv_estimator": "reinforce_plus_plus"}),
        ("reinforce_plus_plus_baseline", {"algorithm.adv_estimator": "reinforce_plus_plus_baseline"}),
        ("gspo", {f"{ACTOR}.policy_loss.loss_mode": "gspo", f"{ACTOR}.clip_ratio_low": 3e-4}),
        ("cispo", {f"{ACTOR}.policy_loss.loss_mode": "cispo", f"{ACTOR}.clip_ratio_low": 1.0}),
    ],
)
def test_verl_is_told_the_algorithm_by_its_own_keys(name: str, expected: dict[str, Any]) -> None:
    found = told(f"name={name}")
    assert expected.items() <= found.items()


def test_verls_metric_is_named_where_it_has_no_default() -> None:
    metric = "algorithm.filter_groups.metric"
    assert metric not in told("name=dapo")
    assert told("name=dapo", version="0.9.0")[metric] == "acc"


def test_an_older_verl_is_not_told_what_it_does_not_know() -> None:
    found = told("name=dapo", version="0.5.0")
    assert not [key for key in found if "filter_groups" in key or "overlong" in key]
    assert f"{ACTOR}.policy_loss.loss_mode" not in told("name=cispo", version="0.5.0")


def test_the_rollouts_weights_need_its_log_probabilities() -> None:
    key = "algorithm.rollout_correction"
    logprobs = "actor_rollout_ref.rollout.calculate_log_probs"
    expected = {f"{key}.rollout_is": "token", f"{key}.rollout_is_threshold": 3.0}
    assert expected.items() <= told("rollout_is=token", "rollout_is_threshold=3.0").items()
    assert told("rollout_is=token", version="0.8.0")[logprobs] is True


def test_an_adaptive_coefficient_is_verls_for_the_reward_alone() -> None:
    target = {"algorithm.kl_ctrl.type": "adaptive", "algorithm.kl_ctrl.target_kl": 0.2}
    assert target.items() <= told("kl_target=0.2", "kl_in=reward").items()
    assert not target.items() & told("kl_target=0.2", "kl_in=loss").items()


@pytest.mark.parametrize(
    "overrides",
    [
        *([f"name={name}"] for name in ALGORITHMS),
        ["kl_target=0.2", "kl_horizon=500", "kl_in=reward"],
        ["rollout_is=token", "rollout_is_threshold=3.0"],
    ],
    ids=str,
)
def test_an_import_tells_verl_the_same(overrides: list[str]) -> None:
    base = ["backend=verl", "model.path=a/b", "data.train_files=a.parquet", "data.max_response_length=20480"]
    values = resolve([], [*base, *(f"algorithm.{each}" for each in overrides)], env={})
    first = translate(values, "0.9.1")
    found = import_run(run_of_translation(first, Context()))
    again: dict[str, Any] = {"extends": "verl-defaults", "verl": dict(found.kept)}
    for key, value in found.ours.items():
        node = again
        for part in key.split(".")[:-1]:
            node = node.setdefault(part, {})
        node[key.rpartition(".")[2]] = value
    second = translate(resolve([again], env={}), "0.9.1")
    assert {each.key: each.value for each in second.told} == {each.key: each.value for each in first.told}
