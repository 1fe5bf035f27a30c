"""Where generated rows come from, second kind: the procedural tasks of the reasoning-gym package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from verlcli.engine.data.arguments import Arguments
from verlcli.engine.types import PromptRow
from verlcli.errors import ConfigError, MissingDependencyError

DEFAULTS: dict[str, Any] = {"dataset": "", "train_size": 1000, "val_size": 100, "chat": True, "split_seed": 0}
INSTALL = 'pip install "verlcli[demo]"'


def reasoning_gym_datasets(source_args: Mapping[str, Any]) -> tuple[list[PromptRow], list[PromptRow]]:
    """Training and held-out rows of one task, disjoint by their questions; the answer is the ground truth.

    Args:
        source_args: `dataset` (the task's name), `train_size`, `val_size` (rows), `chat`, `split_seed`; all others are
            arguments of the task itself.

    Raises:
        MissingDependencyError: reasoning-gym is not installed.
        ConfigError: unknown task, refused arguments, no written answers, or too few different questions.
    """
    args = Arguments("reasoning_gym", source_args, DEFAULTS, open_ended=True)
    train_size, val_size = args.integer("train_size", least=1), args.integer("val_size", least=0)
    name, chat, seed = args.text("dataset"), args.boolean("chat"), args.integer("split_seed", least=0)
    # Tasks repeat themselves: draw more than asked for, keep the different ones.
    task = _create(name, args.rest, size=20 * (train_size + val_size), seed=seed)
    rows = list(islice(_distinct(task, name, chat), train_size + val_size))
    if len(rows) < train_size + val_size:
        raise ConfigError(
            f"train_size {train_size} + val_size {val_size} is more than the {len(rows)} different questions found",
            where="data.source_args",
            fix="lower the sizes or widen the task's own arguments",
        )
    return rows[val_size:], rows[:val_size]


def _create(name: str, arguments: Mapping[str, Any], *, size: int, seed: int) -> Any:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise MissingDependencyError(
            "the source 'reasoning_gym' needs the package reasoning-gym", where="data.source", fix=INSTALL
        ) from error
    if name not in DATASETS:
        close = get_close_matches(name, DATASETS, n=1)
        raise ConfigError(
            f"reasoning-gym has no task {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
            where="data.source_args.dataset",
            fix=f"use one of {', '.join(sorted(DATASETS))}",
        )
    try:
        return reasoning_gym.create_dataset(name, size=size, seed=seed, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(
            f"the task {name!r} refuses its arguments: {error}", where="data.source_args", fix="correct the named one"
        ) from error


def _distinct(task: Any, name: str, chat: bool) -> Iterator[PromptRow]:
    seen: set[str] = set()
    for item in task:
        question, answer = item["question"], item["answer"]
        if answer is None:
            raise ConfigError(
                f"the task {name!r} has no written answers to compare with",
                where="data.source_args.dataset",
                fix="choose a task with one right answer",
            )
        if question not in seen:
            seen.add(question)
            yield PromptRow(
                prompt=({"role": "user", "content": question},) if chat else question,
                data_source=f"reasoning_gym/{name}",
                ground_truth=str(answer),
                extra_info={"index": len(seen) - 1},
            )
