"""Weighted sums of reward functions, and the share of failures a batch may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config.types import RewardConfig
from verlcli.engine.rewards import RewardError, RewardInput, RewardOutcome, load_reward
from verlcli.errors import ConfigError, MissingDependencyError, TrainingFailedError


def config(*functions: str, weights: tuple[float, ...] | None = None, limit: float = 0.05) -> RewardConfig:
    return RewardConfig(functions, weights, 5.0, limit)


def outcome(failed: int, batch_size: int) -> RewardOutcome:
    errors = [RewardError(index, "reward.py:12: ZeroDivisionError: division by zero") for index in range(failed)]
    return RewardOutcome([0.0] * batch_size, errors, [{} for _ in range(batch_size)])


def test_scores_are_the_weighted_sum_and_each_functions_own_is_kept() -> None:
    rewarder = load_reward(config("numeric", "format", weights=(1.0, 0.2)))
    scored = rewarder.score([RewardInput("a", text, "18") for text in ("#### 18", "18", "#### 3", "")], seed=0)
    assert scored.scores == [1.2, 1.0, 0.2, 0.0]
    assert scored.extra[1] == {"reward/numeric": 1.0, "reward/format": 0.0}
    assert scored.first == [1.0, 1.0, 0.0, 0.0]
    assert scored.errors == []


def test_the_first_functions_own_score_and_what_it_says_of_accuracy_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import numpy\ndef compute_score(solution_str, **rest):\n"
        "    return {'score': 1 / int(solution_str), 'acc': numpy.bool_(solution_str == '2'), 'why': 'a'}"
    )
    (tmp_path / "b.py").write_text("def compute_score(**rest):\n    return {'score': 1, 'acc': 0, 'more': 'b'}")
    with load_reward(config(str(tmp_path / "a.py"), str(tmp_path / "b.py"), weights=(3.0, 0.5))) as rewarder:
        scored = rewarder.score([RewardInput("a", text, "0") for text in ("2", "1", "0")], seed=0)
    assert scored.first == [0.5, 1.0, 0.0]
    assert scored.scores == [2.0, 3.5, 0.0]
    assert [extra.get("acc") for extra in scored.extra] == [True, False, None]
    assert (scored.extra[0]["why"], scored.extra[0]["more"]) == ("a", "b")


def test_without_weights_each_counts_1() -> None:
    assert load_reward(config("numeric", "exact_match")).score([RewardInput("a", "1", "1")], seed=0).scores == [2.0]


def test_a_sample_that_one_function_fails_on_scores_0(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def compute_score(solution_str, **rest):\n    return 1 / int(solution_str)")
    with load_reward(config("exact_match", str(tmp_path / "r.py"))) as rewarder:
        scored = rewarder.score([RewardInput("a", text, "0") for text in ("1", "0")], seed=0)
    assert scored.scores == [1.0, 0.0]
    assert [error.index for error in scored.errors] == [1]


@pytest.mark.parametrize(
    ("failed", "batch_size", "limit", "stops"),
    [
        (0, 100, 0.05, False),
        (5, 100, 0.05, False),
        (6, 100, 0.05, True),
        (1, 20, 0.05, False),
        (1, 19, 0.05, True),
        (29, 100, 0.29, False),
        (7, 100, 0.07, False),
        (0, 8, 0.0, False),
        (1, 8, 0.0, True),
        (8, 8, 1.0, False),
    ],
)
def test_training_stops_above_the_share_of_failures_not_at_it(
    failed: int, batch_size: int, limit: float, stops: bool
) -> None:
    rewarder = load_reward(config("exact_match", limit=limit))
    if not stops:
        rewarder.check(outcome(failed, batch_size), batch_size)
        return
    with pytest.raises(TrainingFailedError) as caught:
        rewarder.check(outcome(failed, batch_size), batch_size)
    assert caught.match(f"failed on {failed} of {batch_size} samples .*sample 0: reward.py:12: ZeroDivisionError")
    assert caught.value.fix
    assert caught.value.exit_code == 1


def test_a_raising_reward_may_fail_on_5_of_100_samples_and_not_on_6(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def compute_score(solution_str, **rest):\n    return 1 / int(solution_str)")
    with load_reward(config(str(tmp_path / "r.py"))) as rewarder:
        for failing in (5, 6):
            batch = [RewardInput("a", "0" if index < failing else "1", "1") for index in range(100)]
            scored = rewarder.score(batch, seed=0)
            assert scored.scores == [0.0] * failing + [1.0] * (100 - failing)
            if failing == 5:
                rewarder.check(scored, 100)
        with pytest.raises(TrainingFailedError, match=r"6 of 100 samples .*r.py:2: ZeroDivisionError"):
            rewarder.check(scored, 100)


@pytest.mark.parametrize(
    ("functions", "weights", "message"),
    [
        (("exactmatch",), None, "unknown reward 'exactmatch'; did you mean 'exact_match'.*\n.*numeric, gsm8k, format"),
        (("numeric",), (1.0, 2.0), "2 weights for 1 functions"),
        ((), None, "reward.function: no reward"),
    ],
)
def test_a_wrong_configuration_is_refused_with_the_choices(
    functions: tuple[str, ...], weights: tuple[float, ...] | None, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_reward(config(*functions, weights=weights))
    assert caught.match(message)


def test_math_verify_finds_equal_mathematics() -> None:
    pytest.importorskip("math_verify")
    with load_reward(config("math_verify")) as rewarder:
        pairs = [(r"so \boxed{\frac{1}{2}}", "0.5"), ("the answer is $0.5$", r"\frac12"), ("7", "8"), ("", "8")]
        scored = rewarder.score([RewardInput("a", answer, truth) for answer, truth in pairs], seed=0)
    assert scored.scores == [1.0, 1.0, 0.0, 0.0]
    assert scored.errors == []


def test_without_math_verify_the_install_line_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="pip install") as caught:
        load_reward(config("math_verify"))
    assert caught.value.exit_code == 4
