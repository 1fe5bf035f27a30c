"""Rules about what goes in: the model, the data, the rewards."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config


def model_is_named(config: Config) -> Iterator[Verdict]:
    """VRL005: a model to train."""
    if config.model.path is None and config.model.shape is None:
        yield Verdict(
            "VRL005",
            ("model.path",),
            "no model: neither model.path nor model.shape is set",
            "set model.path to a folder, a hub id or a .gguf file",
        )


def model_is_named_once(config: Config) -> Iterator[Verdict]:
    """VRL120: a shape is for random weights, a path for stored ones."""
    if config.model.path is not None and config.model.shape is not None:
        yield Verdict(
            "VRL120",
            ("model.shape", "model.path"),
            "model.path and model.shape are both set; the one loads weights, the other starts from random ones",
            "remove one of them",
        )


def data_is_named(config: Config) -> Iterator[Verdict]:
    """VRL005: prompts to train on."""
    if not config.data.train_files and config.data.source is None:
        yield Verdict(
            "VRL005",
            ("data.train_files",),
            "no data: neither data.train_files nor data.source is set",
            "set data.train_files to parquet, arrow or JSONL files, or data.source: arithmetic",
        )


def data_is_named_once(config: Config) -> Iterator[Verdict]:
    """VRL121: a generator makes the prompts, so files beside it would be ignored."""
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
    """VRL122: arguments for a generator that is not there."""
    if config.data.source_args and config.data.source is None:
        yield Verdict(
            "VRL122",
            ("data.source_args", "data.source"),
            "arguments for a generator, but data.source is not set",
            "set data.source: arithmetic, or remove them",
        )


def validation_is_held_out(config: Config) -> Iterator[Verdict]:
    """VRL123: accuracy on training rows says nothing about new ones."""
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
    """VRL124: one weight for each reward function."""
    weights, functions = config.reward.weights, config.reward.function
    if weights is not None and len(weights) != len(functions):
        yield Verdict(
            "VRL124",
            ("reward.weights", "reward.function"),
            f"{len(weights)} weights for {len(functions)} reward functions",
            f"give {len(functions)} weights, or null for 1 each",
        )


def something_rewards(config: Config) -> Iterator[Verdict]:
    """VRL125: without a reward there is nothing to learn from."""
    if not config.reward.function and config.reward_model.path is None:
        yield Verdict(
            "VRL125",
            ("reward.function", "reward_model.path"),
            "no reward: neither a reward function nor a reward model is set",
            "set reward.function: exact_match",
        )
