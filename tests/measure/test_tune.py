"""The tuner: its search space, its choice, and a real study."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from verlcli.errors import ConfigError
from verlcli.measure.tune import Study, Trial, changes_learning, combinations, parse_search_space, tune
from verlcli.resources import load_schema

DOCUMENTED = (
    "{'rollout.batch_size': [32,64,128], 'training.ppo_mini_batch_size': [256,512,1024], "
    "'fsdp_config.mixed_precision': ['fp16','bf16']}"
)


def test_the_documented_search_space_is_read() -> None:
    space = parse_search_space(DOCUMENTED)
    assert space["fsdp_config.mixed_precision"] == ["fp16", "bf16"]
    every, size = combinations(space, at_most=100)
    assert size == len(every) == 18
    assert len({json.dumps(values) for values in every}) == 18


def test_a_large_space_is_sampled_without_repeats_and_the_same_each_time() -> None:
    space = {name: list(range(10)) for name in "abcde"}
    picked, size = combinations(space, at_most=7)
    assert size == 100_000
    assert len({json.dumps(values) for values in picked}) == 7
    assert combinations(space, at_most=7)[0] == picked


@pytest.mark.parametrize("text", ["[]", "{}", "{'a': 1}", "{'a': []}", "x", "{'a': [1"])
def test_a_space_that_is_none_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_search_space(text)
    assert caught.value.exit_code == 2


def test_keys_that_change_learning_are_named() -> None:
    space = {"rollout.batch_size": [1], "actor.optim.lr": [1], "training.ppo_mini_batch_size": [1], "rollout.n": [1]}
    assert changes_learning(space) == ["actor.optim.lr", "training.ppo_mini_batch_size", "rollout.n"]


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        ({"rollout.batchsize": [32]}, ["rollout.batchsize"]),
        ({"rollout.n": ["x", -1], "rollout.batch_size": [64]}, ["rollout.n", "rollout.n"]),
        ({"rollout.n": ["x", 4], "actor.optim.lrr": [1], "nothing": [1]}, ["actor.optim.lrr", "nothing"]),
    ],
)
def test_keys_that_no_config_takes_are_refused_before_anything_is_measured(
    space: dict[str, list[Any]], wrong: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        tune(["quickstart"], [], space, target="step_time", max_trials=9, on_trial=lambda *_: pytest.fail("measured"))
    assert [problem.path for problem in caught.value.problems] == wrong


def test_verl_tune_has_short_help_and_plain_errors() -> None:
    program = "import sys; from verlcli.cli.entry import tune_main; sys.argv[0] = 'verl-tune'; tune_main()"
    results = [
        subprocess.run([sys.executable, "-c", program, flag], capture_output=True, text=True) for flag in ("-h", "--no")
    ]
    assert [done.returncode for done in results] == [0, 2]
    assert "--search-space" in results[0].stdout
    assert "No such option: --no" in results[1].stderr
    assert "╭" not in results[0].stdout + results[1].stderr


def trial(result: float | None, **values: Any) -> Trial:
    return Trial(values, result, "ok" if result is not None else "failed", 1.0)


@pytest.mark.parametrize(
    ("target", "results", "best", "gain"),
    [
        ("tokens_per_second", [100.0, 131.2, 120.0], 1, 31.2),
        ("tokens_per_second", [100.0, 102.0, None], 0, 0.0),
        ("step_time", [2.0, 3.0, 1.0], 2, 100.0),
        ("tokens_per_second", [None, 50.0], 1, None),
    ],
)
def test_the_best_must_beat_the_config_as_it_is_by_more_than_noise(
    target: Any, results: list[float | None], best: int, gain: float | None
) -> None:
    trials = tuple(trial(result, key=i) for i, result in enumerate(results))
    study = Study(target, trials, len(trials))
    assert study.best is trials[best]
    assert study.gain_percent == gain


@pytest.mark.slow
def test_a_real_study_measures_and_survives_what_cannot_run(tmp_path: Path) -> None:
    space = "{'training.ppo_micro_batch_size_per_gpu': [4, 512], 'training.ppo_mini_batch_size': [64, 48]}"
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from verlcli.cli.entry import tune_main; tune_main()", "--config", "quickstart"),
            *("--target", "tokens_per_second", "--max_trials", "20", "--search_space", space, "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    Draft202012Validator(load_schema("tune")).validate(document)
    assert [t["status"] for t in document["trials"]].count("ok") == 3
    assert [t["status"] for t in document["trials"]].count("infeasible") == 2
    by_micro = {
        t["values"].get("training.ppo_micro_batch_size_per_gpu"): t["result"] for t in document["trials"] if t["result"]
    }
    # Which one is faster depends on what else the machine does; that each was measured does not.
    assert by_micro.keys() == {None, 4, 512}
    assert all(result > 0 for result in by_micro.values())
    assert "ppo_mini_batch_size changes what is learned" in done.stderr
    assert list(tmp_path.iterdir()) == []
