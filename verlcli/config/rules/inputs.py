"""Rules about what goes in: the model, the data, the rewards."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config


def model_is_named(config: Config) -> Iterator[Verdict]:
    """VRL005: no model is named.

    Why: there is nothing to train; every other key has a default, these do not.
    Example: `data: {source: arithmetic}` and no `model:`
    Instead: `model: {path: Qwen/Qwen2.5-0.5B-Instruct}`, a folder, or a .gguf file
    """
    if config.model.path is None and config.model.shape is None:
        yield Verdict(
            "VRL005",
            ("model.path", "model.shape"),
            "no model: neither model.path nor model.shape is set",
            "set model.path to a folder, a hub id or a .gguf file",
        )


def model_is_named_once(config: Config) -> Iterator[Verdict]:
    """VRL120: both a path and a shape of the model are set.

    Why: a path loads stored weights, a shape starts from random ones; which one was meant cannot be told.
    Example: `model: {path: a/b, shape: {hidden_size: 64}}`
    Instead: keep model.path to train a model, model.shape for a measurement with random weights
    """
    if config.model.path is not None and config.model.shape is not None:
        yield Verdict(
            "VRL120",
            ("model.shape", "model.path"),
            "model.path and model.shape are both set; the one loads weights, the other starts from random ones",
            "remove one of them",
        )


def data_is_named(config: Config) -> Iterator[Verdict]:
    """VRL005: no prompts are named.

    Why: there is nothing to train on; every other key has a default, these do not.
    Example: `model: {path: a/b}` and no `data:`
    Instead: `data: {train_files: train.parquet}` or `data: {source: arithmetic}`
    """
    if not config.data.train_files and config.data.source is None:
        # verl has a default path; whoever left it out of a launch script may mean it.
        severity: Severity = "warning" if config.backend == "verl" else "error"
        yield Verdict(
            "VRL005",
            ("data.train_files", "data.source"),
            "no data: neither data.train_files nor data.source is set",
            "set data.train_files to parquet files"
            if config.backend == "verl"
            else "set data.train_files to parquet, arrow or JSONL files, or data.source: arithmetic",
            severity,
        )


def data_is_named_once(config: Config) -> Iterator[Verdict]:
    """VRL121: files beside a generator of prompts.

    Why: data.source makes the prompts, so the files would never be read.
    Example: `data: {source: arithmetic, train_files: train.parquet}`
    Instead: remove one of them
    """
    if config.data.source is not None and (config.data.train_files or config.data.val_files):
        key = "data.train_files" if config.data.train_files else "data.val_files"
        generator = "data.source and data.source_args" if config.data.source_args else "data.source"
        yield Verdict(
            "VRL121",
            (key, "data.source"),
            f"data.source '{config.data.source}' makes the prompts, so {key} would be ignored",
            f"remove {key}, or {generator}" if config.data.train_files else f"remove {key}",
        )


def source_args_have_a_source(config: Config) -> Iterator[Verdict]:
    """VRL122: arguments for a generator that is not there.

    Why: data.source_args goes to the generator that data.source names; without it nothing reads them.
    Example: `data: {source_args: {digits: 2}}`
    Instead: `data: {source: arithmetic, source_args: {digits: 2}}`
    """
    if config.data.source_args and config.data.source is None:
        yield Verdict(
            "VRL122",
            ("data.source_args", "data.source"),
            "arguments for a generator, but data.source is not set",
            "set data.source: arithmetic, or remove them",
        )


def validation_is_held_out(config: Config) -> Iterator[Verdict]:
    """VRL123: the same file is trained on and validated on.

    Why: accuracy on rows that were trained on says nothing about new ones, and hides overfitting.
    Example: `data: {train_files: a.parquet, val_files: a.parquet}`
    Instead: give data.val_files rows that are held out
    """
    both = sorted(set(config.data.train_files) & set(config.data.val_files))
    if both:
        yield Verdict(
            "VRL123",
            ("data.val_files", "data.train_files"),
            f"{both[0]} is trained on and validated on, so the accuracy will look better than it is",
            "validate on held-out rows",
            "warning",
        )


def weights_match_functions(config: Config) -> Iterator[Verdict]:
    """VRL124: the number of reward weights differs from the number of reward functions.

    Why: the reward is the weighted sum of the functions, one weight each.
    Example: `reward: {function: [numeric, format], weights: [1.0]}`
    Instead: `reward: {function: [numeric, format], weights: [1.0, 0.2]}`
    """
    weights, functions = config.reward.weights, config.reward.function
    if weights is not None and len(weights) != len(functions):
        yield Verdict(
            "VRL124",
            ("reward.weights", "reward.function"),
            f"{len(weights)} weights for {len(functions)} reward functions",
            f"give {len(functions)} weights, or null for 1 each",
        )


def something_rewards(config: Config) -> Iterator[Verdict]:
    """VRL125: nothing rewards.

    Why: without a reward function or a reward model every advantage is zero and nothing is learnt.
    Example: `reward: {function: []}`
    Instead: `reward: {function: exact_match}`
    """
    if not config.reward.function and config.reward_model.path is None:
        yield Verdict(
            "VRL125",
            ("reward.function", "reward_model.path"),
            "no reward: neither a reward function nor a reward model is set",
            "set reward.function: exact_match",
        )
