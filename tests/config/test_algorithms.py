"""`algorithm.name`: what it sets by default, what wins over it, and what contradicts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from verlcli.config import load_config
from verlcli.config.algorithms import ALGORITHMS, algorithm_defaults
from verlcli.config.keys import schema_at
from verlcli.config.load import as_loaded
from verlcli.config.types import AlgorithmConfig
from verlcli.config.violations import violations
from verlcli.facts.verl.types import choices

BASE = ["model.path=some/model", "data.source=arithmetic"]


def loaded(*overrides: str, sources: tuple[Any, ...] = ()) -> Any:
    return load_config(list(sources), [*BASE, *overrides], env={})


def test_the_table_names_what_the_schema_names() -> None:
    node = schema_at(("algorithm", "name")) or {}
    assert list(ALGORITHMS) == node["enum"] == list(get_args(get_type_hints(AlgorithmConfig)["name"]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_a_name_sets_fits_the_schema(name: str) -> None:
    for key, value in algorithm_defaults({"algorithm": {"name": name}, "data": {"max_response_length": 20480}}).items():
        assert not list(violations(schema_at(("algorithm", key)) or {}, value)), key


def test_estimators_are_verls() -> None:
    known = choices("algorithm.adv_estimator", "0.9.1")
    assert known is not None
    assert {each.estimator for each in ALGORITHMS.values()} <= set(known.values)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("grpo", {"norm_adv_by_std": True, "loss_agg_mode": "token-mean", "kl_coef": 0.001, "filter_groups": False}),
        ("dr_grpo", {"norm_adv_by_std": False, "loss_agg_mode": "seq-mean-token-sum-norm", "kl_coef": 0.0}),
        (
            "dapo",
            {
                "clip_ratio_low": 0.2,
                "clip_ratio_high": 0.28,
                "loss_agg_mode": "token-mean",
                "filter_groups": True,
                "overlong_buffer": 4096,
                "overlong_penalty": 1.0,
            },
        ),
        ("rloo", {"kl_in": "reward", "kl_estimator": "k1", "policy_loss": "clip"}),
        ("reinforce_plus_plus", {"kl_in": "reward", "kl_estimator": "k1"}),
        ("reinforce_plus_plus_baseline", {"kl_in": "loss", "kl_estimator": "k2"}),
        ("gspo", {"policy_loss": "gspo", "loss_agg_mode": "seq-mean-token-mean", "clip_ratio_high": 4e-4}),
        ("cispo", {"policy_loss": "cispo", "clip_ratio_low": 1.0, "clip_ratio_high": 0.2}),
    ],
)
def test_a_name_sets_the_defaults_of_its_method(name: str, values: dict[str, Any]) -> None:
    config = loaded(f"algorithm.name={name}", "data.max_response_length=20480")
    assert config.problems == ()
    assert {key: getattr(config.config.algorithm, key) for key in values} == values


def test_a_key_that_is_written_wins_also_in_a_lower_layer(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("algorithm: {clip_ratio_high: 0.25}\n")
    algorithm = loaded("algorithm.name=dapo", sources=(file,)).config.algorithm
    assert (algorithm.clip_ratio_low, algorithm.clip_ratio_high) == (0.2, 0.25)


@pytest.mark.parametrize(
    ("name", "more", "bounds"),
    [("dapo", [], (None, None)), ("gspo", [], (None, None)), ("dapo", ["clip_ratio_high=0.4"], (None, 0.4))],
)
def test_a_clip_ratio_that_is_written_stands_for_the_bounds_that_are_not(
    name: str, more: list[str], bounds: tuple[float | None, float | None]
) -> None:
    found = loaded(*(f"algorithm.{each}" for each in (f"name={name}", "clip_ratio=0.3", *more)))
    algorithm = found.config.algorithm
    assert found.problems == ()
    assert algorithm.clip_ratio == 0.3
    assert (algorithm.clip_ratio_low, algorithm.clip_ratio_high) == bounds


def test_a_key_that_is_taken_back_follows_the_name() -> None:
    config = loaded("algorithm.name=dapo", "algorithm.clip_ratio_high=0.4", "~algorithm.clip_ratio_high")
    assert config.config.algorithm.clip_ratio_high == 0.28


def test_the_history_of_a_value_says_that_the_name_set_it() -> None:
    config = loaded("algorithm.name=dapo")
    history = config.origins["algorithm.clip_ratio_high"]
    assert [(origin.label, origin.value) for origin in history] == [("default", None), ("algorithm.name: dapo", 0.28)]
    assert "algorithm.clip_ratio_high" not in config.set_by_user


def test_another_name_on_a_loaded_config_takes_its_own_defaults() -> None:
    config = as_loaded(loaded("algorithm.name=dapo", "algorithm.kl_coef=0.5"), ["algorithm.name=gspo"])
    algorithm = config.config.algorithm
    assert (algorithm.policy_loss, algorithm.clip_ratio_high, algorithm.filter_groups) == ("gspo", 4e-4, False)
    assert algorithm.kl_coef == 0.5


def test_a_wrong_name_or_section_sets_nothing() -> None:
    assert algorithm_defaults({"algorithm": {"name": "dappo"}}) == {}
    assert algorithm_defaults({"algorithm": {"name": ["dapo"]}}) == {}
    assert algorithm_defaults({"algorithm": 3}) == {}
    assert [problem.code for problem in loaded("algorithm=3").problems] == ["VRL002"]
    assert algorithm_defaults({"algorithm": {"name": "dapo"}, "data": None})["overlong_buffer"] == 0


@pytest.mark.parametrize(
    ("overrides", "code", "key", "part"),
    [
        (["name=dr_grpo", "norm_adv_by_std=true"], "VRL112", "algorithm.norm_adv_by_std", "dr_grpo is the algorithm"),
        (["name=dr_grpo", "loss_agg_mode=token-mean"], "VRL112", "algorithm.loss_agg_mode", "another algorithm"),
        (["name=dapo", "filter_groups=false"], "VRL112", "algorithm.filter_groups", "false, but dapo"),
        (["name=gspo", "policy_loss=clip"], "VRL112", "algorithm.policy_loss", "'gspo' there"),
        (["name=cispo", "policy_loss=gspo", "clip_ratio_low=0.1"], "VRL112", "algorithm.policy_loss", "'cispo' there"),
        (["overlong_buffer=999"], "VRL114", "algorithm.overlong_buffer", "a fifth of data.max_response_length"),
        (["kl_coef=0", "kl_target=0.1"], "VRL115", "algorithm.kl_target", "algorithm.kl_coef: 0.001"),
        (["kl_estimator=k1"], "VRL116", "algorithm.kl_estimator", "set k2 or k3"),
        (["name=rloo", "kl_in=loss"], "VRL116", "algorithm.kl_in", "set k2 or k3"),
    ],
)
def test_a_contradiction_is_found_at_the_key_that_was_written(
    overrides: list[str], code: str, key: str, part: str
) -> None:
    (problem,) = loaded(*(f"algorithm.{each}" for each in overrides)).problems
    assert (problem.code, problem.path) == (code, key)
    assert problem.severity == ("error" if code == "VRL114" else "warning")
    assert part in f"{problem.message} {problem.suggestion}"


def test_dynamic_sampling_needs_more_than_one_answer() -> None:
    problems = loaded("algorithm.name=ppo", "algorithm.filter_groups=true", "rollout.n=1").problems
    assert [(problem.code, problem.severity) for problem in problems] == [("VRL113", "error")]


@pytest.mark.parametrize("name", [name for name, each in ALGORITHMS.items() if each.is_grouped])
def test_an_algorithm_that_compares_answers_needs_more_than_one(name: str) -> None:
    problems = loaded(f"algorithm.name={name}", "rollout.n=1").problems
    assert "VRL103" in [problem.code for problem in problems]


@pytest.mark.parametrize(
    "overrides",
    [
        ["name=grpo", "norm_adv_by_std=false"],
        ["name=grpo", "policy_loss=gspo"],
        ["name=dapo", "clip_ratio_high=0.3", "overlong_buffer=0"],
        ["name=ppo", "kl_in=reward", "kl_estimator=k1", "kl_target=0.1"],
        ["kl_coef=0", "kl_estimator=k1"],
        ["name=grpo", "rollout_is=token", "rollout_is_threshold=3"],
    ],
)
def test_what_goes_together_is_no_problem(overrides: list[str]) -> None:
    assert loaded(*(f"algorithm.{each}" for each in overrides)).problems == ()


@pytest.mark.parametrize(
    ("overrides", "code", "severity"),
    [
        (["rollout.min_tokens=9", "data.max_response_length=8"], "VRL117", "error"),
        (["rollout.min_tokens=8", "data.max_response_length=8"], None, ""),
        (["training.recompute=none", "model.use_recompute=true"], "VRL118", "warning"),
        (["training.recompute=full", "model.use_recompute=true"], None, ""),
        (["model.enable_gradient_checkpointing=true"], None, ""),
    ],
)
def test_keys_of_generation_and_recomputation_agree(overrides: list[str], code: str | None, severity: str) -> None:
    problems = loaded(*overrides).problems
    assert [(p.code, p.severity) for p in problems] == ([] if code is None else [(code, severity)])
