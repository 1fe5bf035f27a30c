"""Rules about files that a launch names by path: whether data and models are on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

from verlcli.config.context import NotKnown
from verlcli.config.problems import Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.run import VerlRun

DATA_FILES = ("data.train_files", "data.val_files")
_MODELS = ("actor_rollout_ref.model.path", "critic.model.path", "reward.reward_model.model_path")
_ELSEWHERE = ("~", "$", "://", "*")  # a home, a variable, a remote store, a pattern: nothing to look up as it is


def files_at(run: VerlRun, key: str) -> list[str]:
    """Paths at a key that takes one or a list; raises as `VerlRun.get`."""
    value = run.get(key)
    return [file for file in (value if isinstance(value, list) else [value]) if file and isinstance(file, str)]


def is_ours(run: VerlRun, *keys: str) -> bool:
    """Whether the keys come from sections of our own in a config of ours, whose own rules say the same of them."""
    return run.source == "config" and not any(run.is_set(key) and run.name(key).startswith("verl.") for key in keys)


def is_absent(file: str) -> bool:
    """Whether a path is written so that it must be on a disk (`/...`, `./...`) and is not on this machine's."""
    return file.startswith(("/", "./", "../")) and not os.path.exists(file)


def _is_looked_up(run: VerlRun, file: str) -> bool:
    """Whether it can be told where a file would be: a relative one stands where the script is started."""
    if any(mark in file for mark in _ELSEWHERE):
        return False
    moves = any("cd" in command.words for command in (run.script.commands if run.script else ()))
    return os.path.isabs(file) or not moves


def _is_missing(run: VerlRun, file: str) -> bool:
    """Whether a file is neither here nor beside the script that names it."""
    beside = os.path.join(os.path.dirname(run.place.file or ""), file)
    return _is_looked_up(run, file) and not os.path.exists(file) and not os.path.exists(beside)


@rule()
def files_are_here(run: VerlRun) -> Iterator[Verdict]:
    """VRL225: a data file is not where the launch looks for it.

    Why: verl reads the files after Ray has started and stops with FileNotFoundError. Only a warning, as a script may
        be checked on another machine than the one that trains, and only a note for a path that depends on the folder
        in which it is started.
    Example: data.train_files=/nope.parquet
    Instead: the path of a file that is there
    Source: verl/utils/dataset/rl_dataset.py
    """
    for key in DATA_FILES:
        files = files_at(run, key) if run.is_set(key) and not is_ours(run, key) else []
        absent = sorted((file for file in files if _is_missing(run, file)), key=os.path.isabs, reverse=True)
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            severity: Severity = "warning" if os.path.isabs(absent[0]) else "note"
            message = f"no such file here: {absent[0]}{more}"
            yield Verdict("VRL225", (key,), message, "correct the path, or bring the file", severity)


@rule()
def models_are_here(run: VerlRun) -> Iterator[Verdict]:
    """VRL244: the folder of a model is not there.

    Why: every worker loads it, after Ray has started; a folder that is not there is taken for the id of a model on
        the hub and refused as such. Only a warning, as a script may be checked on another machine than the one that
        trains.
    Example: actor_rollout_ref.model.path=/models/qwen
    Instead: the path of a folder that is there, or the model's id on the hub, as Qwen/Qwen2.5-7B-Instruct
    Source: verl/utils/fs.py, transformers' from_pretrained
    """
    for key in _MODELS:
        path = _path(run, key) if run.is_set(key) and not is_ours(run, key) else None
        # Without a leading slash or dot it is an id on the hub.
        if path is not None and path.startswith(("/", "./", "../")) and _is_missing(run, path):
            severity: Severity = "warning" if os.path.isabs(path) else "note"
            advice = "correct the path, or name the model's id on the hub"
            yield Verdict("VRL244", (key,), f"no such model here: {path}", advice, severity)


def _path(run: VerlRun, key: str) -> str | None:
    """A path that the text decides; one that it does not is nothing to ask for."""
    try:
        return run.text(key)
    except NotKnown:
        return None


RULES: tuple[VerlRule, ...] = (files_are_here, models_are_here)
