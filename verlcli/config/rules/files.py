"""Rules about what stands on this machine's disk: models, data and reward files that a config names by path."""

from __future__ import annotations

import os
from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config
from verlcli.config.wording import any_of, closest

REWARD_NAMES = ("exact_match", "numeric", "gsm8k", "format", "math_verify")  # a test compares them with the engine's


def rewards_exist(config: Config) -> Iterator[Verdict]:
    """VRL126: a reward that is no built-in one.

    Why: a name without .py is looked up among the built-in rewards.
    Example: `reward: {function: numerical}`
    Instead: `reward: {function: numeric}`, or FILE.py:FUNCTION
    """
    for spec in config.reward.function:
        if ".py" in spec or spec in REWARD_NAMES:
            continue
        close = closest(spec, REWARD_NAMES)
        yield Verdict(
            "VRL126",
            ("reward.function",),
            f"'{spec}' is no built-in reward",
            f"did you mean '{close}'?" if close else f"write {any_of(REWARD_NAMES)}, or FILE.py:FUNCTION",
        )


def reward_files_exist(config: Config) -> Iterator[Verdict]:
    """VRL127: the Python file of a reward is not there.

    Why: it would be noticed when the first answers are scored.
    Example: `reward: {function: "rewards.py:score"}` without that file
    Instead: correct the path; it is relative to the file that names it
    """
    for spec in config.reward.function:
        file = spec.rpartition(":")[0] if spec.rpartition(":")[0].endswith(".py") else spec.removesuffix(":")
        if ".py" in spec and not os.path.isfile(file):
            yield Verdict("VRL127", ("reward.function",), f"no such reward file: {file}", "write FILE.py:FUNCTION")


def model_paths_exist(config: Config) -> Iterator[Verdict]:
    """VRL128: a model path that is not on this machine.

    Why: a warning, for configs are checked and planned on other machines than the one that trains.
    Example: `model: {path: ./models/missing}`
    Instead: correct the path, or ignore it where another machine trains
    """
    paths = {
        "model.path": config.model.path,
        "critic.path": config.critic.path,
        "reference.path": config.reference.path,
        "reward_model.path": config.reward_model.path,
    }
    for key, path in paths.items():
        if path is not None and os.path.isabs(path) and not os.path.exists(path):
            yield Verdict("VRL128", (key,), f"no such model here: {path}", "correct the path", "warning")


def data_files_exist(config: Config) -> Iterator[Verdict]:
    """VRL129: a data file that is not on this machine.

    Why: a warning, for it may be made later or stand on another machine.
    Example: `data: {train_files: missing.parquet}`
    Instead: correct the path, or make the file first
    """
    for key, files in (("data.train_files", config.data.train_files), ("data.val_files", config.data.val_files)):
        absent = [file for file in files if "://" not in file and not os.path.exists(file)]
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            message = f"no such file here: {absent[0]}{more}"
            yield Verdict("VRL129", (key,), message, "correct the path", "warning", of_presets=False)
