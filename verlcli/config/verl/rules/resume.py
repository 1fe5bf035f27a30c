"""Rules about going on from a checkpoint: whether it is named as verl needs it, and saved by the same ranks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

from verlcli.config.context import NotKnown
from verlcli.config.problems import Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import strategy
from verlcli.config.verl.rules.files import is_ours
from verlcli.config.verl.run import VerlRun

_MODE, _FROM, _FOLDER = "trainer.resume_mode", "trainer.resume_from_path", "trainer.default_local_dir"
_STRATEGY = "actor_rollout_ref.actor.strategy"
_STEP_NAME = "global_step_"
_RANK_FILE = re.compile(r"model_world_size_(\d+)_rank_0\.pt")
_LONGEST = 10_000  # characters of fsdp_config.json, which holds two numbers


@rule()
def resume_path_is_a_step(run: VerlRun) -> Iterator[Verdict]:
    """VRL230: the checkpoint to go on from is not named as verl needs it, or was saved on other ranks.

    Why: resume_mode=resume_path asserts a resume_from_path with global_step_N in it, after the models are loaded. With
        any other mode the path is not read. FSDP saves one file a rank, and another number of GPUs does not find them.
    Example: trainer.resume_mode=resume_path trainer.resume_from_path=checkpoints/last
    Instead: trainer.resume_from_path=checkpoints/my_project/my_run/global_step_100
    Source: verl/trainer/ppo/v1/trainer_base.py, verl/trainer/ppo/ray_trainer.py
    """
    if not run.has(_MODE):
        return
    mode, path = run.text(_MODE), run.text(_FROM)
    if mode != "resume_path":
        if path:
            advice = f"set {run.name(_MODE)}=resume_path, or remove the path"
            severity: Severity = "warning" if _STEP_NAME in path else "note"
            yield Verdict("VRL230", (_FROM, _MODE), f"not read while {run.shown(_MODE)}", advice, severity)
    elif not path:
        advice = f"set {_FROM} to a folder {_STEP_NAME}N"
        yield Verdict("VRL230", (_MODE, _FROM), f"{run.shown(_MODE)}, but {_FROM} is not set", advice)
    elif _STEP_NAME not in path:
        advice = f"name the folder of a step: .../{_STEP_NAME}100"
        yield Verdict("VRL230", (_FROM, _MODE), f"'{path}' names no step: it has no {_STEP_NAME}N in it", advice)
    elif os.path.isabs(path) and not os.path.isdir(path):
        yield Verdict("VRL230", (_FROM, _MODE), f"no such checkpoint here: {path}", "correct the path", "warning")


@rule(engines=("dp",))
def resumed_ranks_are_the_same(run: VerlRun) -> Iterator[Verdict]:
    """VRL230: the checkpoint that the run goes on from was saved on another number of GPUs.

    Why: FSDP saves one file a rank and looks for those of its own world size: with another one it stops with
        FileNotFoundError for model_world_size_N_rank_0.pt.
    Example: trainer.nnodes=2 with 8 GPUs each, and a default_local_dir with a checkpoint of 8 ranks
    Instead: trainer.nnodes=1, or trainer.resume_mode=disable
    Source: verl/utils/checkpoint/fsdp_checkpoint_manager.py; verl issue 2265
    """
    found = _checkpoint_of(run)
    if found is None:
        return
    folder, key = found
    saved = _ranks_saved(os.path.join(folder, "actor"))
    if saved is not None and saved != run.gpus:
        yield Verdict(
            "VRL230",
            (key, "trainer.n_gpus_per_node", "trainer.nnodes", _MODE),
            f"the run goes on from {folder}, which {saved} ranks saved; {run.gpus} cannot read it",
            f"train on {saved} GPUs, or set {run.name(_MODE)}={'never' if is_ours(run, _MODE) else 'disable'}",
        )


@rule(engines=("dp",))
def resumed_strategy_is_the_same(run: VerlRun) -> Iterator[Verdict]:
    """VRL230: the checkpoint that the run goes on from was saved by the other FSDP.

    Why: FSDP 1 and FSDP 2 save their shards in forms of their own; the version that wrote a checkpoint stands in its
        fsdp_config.json. verl does not convert one to the other.
    Example: actor_rollout_ref.actor.strategy=fsdp2, and a default_local_dir with a checkpoint of fsdp
    Instead: actor_rollout_ref.actor.strategy=fsdp, or trainer.resume_mode=disable
    Source: verl/utils/checkpoint/fsdp_checkpoint_manager.py
    """
    found, now = _checkpoint_of(run), strategy(run)
    if found is None or not now.startswith("fsdp"):
        return
    folder, key = found
    version = _fsdp_saved(os.path.join(folder, "actor")).get("FSDP_version")
    if version in (1, 2) and version != (2 if now == "fsdp2" else 1):
        saved = "fsdp" if version == 1 else "fsdp2"
        yield Verdict(
            "VRL230",
            (_STRATEGY, key, _MODE),
            f"the run goes on from {folder}, which {saved} saved, with {run.shown(_STRATEGY)}",
            f"set {run.name(_STRATEGY)}={saved}, or {run.name(_MODE)}={'never' if is_ours(run, _MODE) else 'disable'}",
            "warning",
        )


def _fsdp_saved(folder: str) -> dict[str, Any]:
    """What fsdp_config.json in a checkpoint says; empty where there is none."""
    try:
        with open(os.path.join(folder, "fsdp_config.json"), encoding="utf-8") as file:
            said = json.loads(file.read(_LONGEST))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _checkpoint_of(run: VerlRun) -> tuple[str, str] | None:
    """Folder of the step that the run would go on from on this machine, and the key that says so."""
    mode = run.text(_MODE)
    if mode == "resume_path":
        path = run.text(_FROM)
        return (path, _FROM) if path and os.path.isdir(path) else None
    try:
        # A name made of the time, as many are, is that of a new folder: nothing to ask for.
        folder = run.text(_FOLDER) if mode == "auto" else None
        with open(os.path.join(folder or "", "latest_checkpointed_iteration.txt"), encoding="ascii") as file:
            step = int(file.read(32))
    except (NotKnown, OSError, ValueError):
        return None
    return os.path.join(folder or "", f"{_STEP_NAME}{step}"), _FOLDER


def _ranks_saved(folder: str) -> int | None:
    try:
        matches = [_RANK_FILE.fullmatch(name) for name in os.listdir(folder)]
    except OSError:
        return None
    sizes = {int(match[1]) for match in matches if match}
    said = _fsdp_saved(folder).get("world_size")
    return sizes.pop() if len(sizes) == 1 else said if isinstance(said, int) and not sizes else None


RULES: tuple[VerlRule, ...] = (resume_path_is_a_step, resumed_ranks_are_the_same, resumed_strategy_is_the_same)
