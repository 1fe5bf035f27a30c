"""Tuner, first form: measure every (or a sample of the) combination of a search space by short real trainings."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from verlcli.config import Problem, load_config
from verlcli.config.loader import load_text
from verlcli.errors import ConfigError, DoesNotFitError, VerlCliError
from verlcli.plan import Plan, make_plan, this_machine

Target = Literal["tokens_per_second", "step_time"]
TARGETS: tuple[Target, ...] = ("tokens_per_second", "step_time")
WARM_UP_STEPS, TIMED_STEPS = 1, 3
NOISE = 0.03  # a gain below this is not told from chance
SECONDS_A_TRIAL = 900.0
WRONG_ALONE = ("VRL001", "VRL002", "VRL003", "VRL004")  # unknown keys and impossible values, not combinations
CHANGES_LEARNING = (
    "actor.optim",
    "algorithm",
    "critic.optim",
    "data",
    "rollout.n",
    "training.ppo_epochs",
    "training.ppo_mini_batch_size",
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One measured combination. `result` is in the target's unit, None unless status is "ok"."""

    values: Mapping[str, Any]
    result: float | None
    status: Literal["ok", "infeasible", "failed", "timeout"]
    seconds: float
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """All trials, the first being the config as it is."""

    target: Target
    trials: tuple[Trial, ...]
    space_size: int

    @property
    def best(self) -> Trial:
        """The best measured trial; the config as it is unless another beats it by more than noise."""
        baseline = self.trials[0]
        measured = [t for t in self.trials if t.result is not None]
        leader = max(measured, key=lambda t: _score(t, self.target))
        return leader if baseline.result is None or _gain(leader, baseline, self.target) > NOISE else baseline

    @property
    def gain_percent(self) -> float | None:
        """Gain of the best over the config as it is, or None when that one could not be measured."""
        if self.trials[0].result is None:
            return None
        return round(100 * _gain(self.best, self.trials[0], self.target), 1)


def _score(trial: Trial, target: Target) -> float:
    assert trial.result is not None
    return trial.result if target == "tokens_per_second" else 1 / trial.result


def _gain(trial: Trial, baseline: Trial, target: Target) -> float:
    return _score(trial, target) / _score(baseline, target) - 1


def parse_search_space(text: str, *, name: str = "--search-space") -> dict[str, list[Any]]:
    """`{'rollout.batch_size': [32, 64]}` as JSON or YAML flow text; single quotes are fine.

    Raises:
        ConfigError: not a mapping from dotted keys to non-empty lists.
    """
    space = load_text(text, name).values
    fix = "write {'rollout.batch_size': [32, 64, 128], …}"
    if not isinstance(space, dict) or not space:
        raise ConfigError("the search space is not a mapping of keys to values", where=name, fix=fix)
    for key, choices in space.items():
        if not isinstance(choices, list) or not choices:
            raise ConfigError(f"{key} has no list of values", where=name, fix=fix)
    return space


def default_space(plan: Plan) -> dict[str, list[Any]]:
    """Keys that change speed and not learning: sequences a forward pass, and sequences generated at once."""
    sequences = plan.batch.mini_batch_sequences_per_rank
    sizes = [size for size in (8, 16, 32, 64, 128, 256, 512, 1024) if size <= sequences]
    return {
        "training.ppo_micro_batch_size_per_gpu": sizes[-4:] or [sequences],
        "rollout.batch_size": [size for size in (64, 256, 1024) if size < plan.batch.sequences]
        + [plan.batch.sequences],
    }


def combinations(
    space: Mapping[str, Sequence[Any]], *, at_most: int, seed: int = 0
) -> tuple[list[dict[str, Any]], int]:
    """All combinations, or a seeded sample of `at_most` of them; and how many there are."""
    size = 1
    for choices in space.values():
        size *= len(choices)
    if size <= at_most:
        return [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())], size
    picked = sorted(random.Random(seed).sample(range(size), at_most))
    return [_nth(space, index) for index in picked], size


def _nth(space: Mapping[str, Sequence[Any]], index: int) -> dict[str, Any]:
    values = {}
    for key in reversed(list(space)):
        index, position = divmod(index, len(space[key]))
        values[key] = space[key][position]
    return dict(reversed(values.items()))


def changes_learning(space: Mapping[str, Any]) -> list[str]:
    """Keys of the space that change what is learned, not only how fast."""
    return [key for key in space if any(key == k or key.startswith(f"{k}.") for k in CHANGES_LEARNING)]


def tune(
    sources: Sequence[str],
    overrides: Sequence[str],
    space: Mapping[str, Sequence[Any]] | None,
    *,
    target: Target,
    max_trials: int,
    on_trial: Callable[[Trial, int, int], None],
) -> Study:
    """Measure the config as it is, then up to `max_trials` - 1 combinations, each in a process of its own.

    Raises:
        ConfigError: the config, or a key of the space, is wrong.
        DoesNotFitError: nothing could be measured.
    """
    plan = _plan(sources, overrides, {})
    space = default_space(plan) if space is None else space
    _check_space(sources, overrides, space)
    candidates, size = combinations(space, at_most=max_trials - 1)
    trials: list[Trial] = []
    for values in [{}, *candidates]:
        trials.append(_measure(sources, overrides, values, target))
        on_trial(trials[-1], len(trials), len(candidates) + 1)
    if not any(t.result is not None for t in trials):
        raise DoesNotFitError(
            f"none of {len(trials)} trials could be measured; the first: {trials[0].reason}",
            where="tune",
            fix="make `verl train` of this config work first",
        )
    return Study(target, tuple(trials), size)


def _check_space(sources: Sequence[str], overrides: Sequence[str], space: Mapping[str, Sequence[Any]]) -> None:
    """Refuse keys that do not exist, and keys none of whose values is possible: what no trial could measure.

    A value, or a combination, that is wrong beside others that are not is an infeasible trial.
    """
    wrong: list[Problem] = []
    for key, choices in space.items():
        found = [_wrong_alone(sources, overrides, key, value) for value in choices]
        if all(found):
            wrong += [problem for problems in found for problem in problems]
    if wrong:
        raise ConfigError(
            "the search space holds what no config takes",
            where="--search-space",
            fix="correct the keys and values above; `verl schema KEY` prints what a key takes",
            problems=tuple(dict.fromkeys(wrong)),
        )


def _wrong_alone(sources: Sequence[str], overrides: Sequence[str], key: str, value: Any) -> list[Problem]:
    loaded = load_config(sources, [*overrides, *_as_overrides({key: value})])
    wrong = [p for p in loaded.problems if p.severity == "error" and p.code in WRONG_ALONE]
    return [replace(problem, origin="--search-space") for problem in wrong]


def _plan(sources: Sequence[str], overrides: Sequence[str], values: Mapping[str, Any]) -> Plan:
    loaded = load_config(sources, [*overrides, *_as_overrides(values)])
    loaded.require()
    return make_plan(loaded.config, name=loaded.name, machine=this_machine(), argv=[], origins=loaded.origins)


def _as_overrides(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in values.items()]


def _measure(sources: Sequence[str], overrides: Sequence[str], values: Mapping[str, Any], target: Target) -> Trial:
    started = time.perf_counter()
    try:
        _plan(sources, overrides, values)
    except VerlCliError as error:
        reason = "; ".join(p.message for p in getattr(error, "problems", ())) or str(error)
        return Trial(values, None, "infeasible", time.perf_counter() - started, reason)
    with tempfile.TemporaryDirectory(prefix="verl-tune-") as folder:
        run_dir = Path(folder) / "run"
        settings = {
            **values,
            "trainer.total_steps": WARM_UP_STEPS + TIMED_STEPS,
            "trainer.save_freq": 0,
            "trainer.test_freq": 0,
            "data.val_max_samples": 1,
        }
        options = [part for o in [*overrides, *_as_overrides(settings)] for part in ("-o", o)]
        command = [
            sys.executable,
            "-m",
            "verlcli",
            "train",
            *sources,
            *options,
            "--output-dir",
            str(run_dir),
            "--json",
            "-q",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_A_TRIAL, check=False)
        except subprocess.TimeoutExpired:
            return Trial(values, None, "timeout", time.perf_counter() - started, f"over {SECONDS_A_TRIAL:.0f} s")
        seconds = time.perf_counter() - started
        if done.returncode != 0:
            last = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("error")), "no message")
            return Trial(values, None, "failed", seconds, f"exit {done.returncode}: {last}")
        return Trial(values, _figure(run_dir / "metrics.jsonl", target), "ok", seconds)


def _figure(metrics: Path, target: Target) -> float:
    """Tokens generated a second end to end, or seconds a step, over the timed steps."""
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    timed = [row for row in rows if "metrics" in row and row["step"] > WARM_UP_STEPS]
    seconds = sum(row["seconds"]["step"] for row in timed)
    if target == "step_time":
        return float(seconds / len(timed))
    return float(sum(row["tokens"]["generated"] for row in timed) / seconds)
