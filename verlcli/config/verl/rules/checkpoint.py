"""Rules about checkpoints: what is saved, how much room it takes, and whether a run can go on from it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from verlcli.config.context import NotKnown
from verlcli.config.problems import Fix, Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import lora_rank
from verlcli.config.verl.run import VerlRun

_ACTOR = "actor_rollout_ref.actor"
_ASYNC, _CONTENTS = f"{_ACTOR}.checkpoint.async_save", f"{_ACTOR}.checkpoint.save_contents"
_FREQ, _STEPS, _KEEP = "trainer.save_freq", "trainer.total_training_steps", "trainer.max_actor_ckpt_to_keep"
_MODE, _FROM, _FOLDER = "trainer.resume_mode", "trainer.resume_from_path", "trainer.default_local_dir"
_STEP_NAME = "global_step_"
_RANK_FILE = re.compile(r"model_world_size_(\d+)_rank_0\.pt")
_BYTES = {"model": 4, "optimizer": 8, "hf_model": 2}  # a parameter: fp32 weights, two Adam moments, bf16 export
_GIB = 2**30
_DTYPE = f"{_ACTOR}.fsdp_config.model_dtype"
_BRIDGES = tuple(f"{role}.megatron.use_mbridge" for role in (_ACTOR, "actor_rollout_ref.ref", "critic"))


@rule(versions=">=0.7", engines=("dp", "veomni", "torchtitan"))
def saves_can_be_found_again(run: VerlRun) -> Iterator[Verdict]:
    """VRL229: checkpoints are saved, but a restart does not find them.

    Why: only Megatron saves asynchronously. With async_save=True verl leaves it to the engine to write the file
        latest_checkpointed_iteration.txt; the others never do, so that resume_mode=auto starts again at step 0.
    Example: actor_rollout_ref.actor.checkpoint.async_save=True, without model_engine=megatron
    Instead: actor_rollout_ref.actor.checkpoint.async_save=False
    Source: verl/trainer/ppo/v1/trainer_base.py, verl/trainer/config/config.py; verl issues 7952, 7955
    """
    if run.flag(_ASYNC):
        saves = run.number(_FREQ) > 0
        yield Verdict(
            "VRL229",
            (_ASYNC, _FREQ),
            f"{run.shown(_ASYNC)} is for Megatron; here a restart finds no checkpoint and begins at step 0",
            f"set {run.name(_ASYNC)}=False",
            "error" if saves else "warning",
            fix=Fix("set", _ASYNC, False),
        )


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
            f"train on {saved} GPUs, or set {run.name(_MODE)}=disable",
        )


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
    return sizes.pop() if len(sizes) == 1 else None


@rule()
def checkpoints_fit_on_the_disk(run: VerlRun) -> Iterator[Verdict]:
    """VRL231: the checkpoints of the run do not fit on the disk.

    Why: one takes 12 bytes a parameter (fp32 weights and two Adam moments), 85 GiB for Qwen2.5-7B. All are kept unless
        max_actor_ckpt_to_keep says otherwise, and a node whose disk is full stops in the middle of a save.
    Example: trainer.save_freq=1 trainer.total_training_steps=100, a 7B model, --cluster 8xA100-80G,disk=2T
    Instead: trainer.max_actor_ckpt_to_keep=3
    Source: verl/utils/checkpoint/fsdp_checkpoint_manager.py
    """
    disk = run.context.cluster.disk_gib if run.context.cluster else None
    if disk is None or not run.has(_FREQ) or run.integer(_FREQ) < 1 or run.get(_STEPS) is None:
        return
    frequency, steps, keep = run.integer(_FREQ), run.integer(_STEPS), run.get(_KEEP)
    # The last step is saved too.
    count = -(-steps // frequency)
    kept = min(count, keep) if isinstance(keep, int) and keep > 0 else count
    # Shards stay on the node that wrote them, so each node holds its part.
    each = _checkpoint_gib(run) / (run.cluster.nodes if run.integer("trainer.nnodes") > 1 else 1)
    if each * kept > disk:
        fits = int(disk // each)
        yield Verdict(
            "VRL231",
            (_KEEP, _FREQ, _STEPS),
            f"{kept} checkpoints of {each:.0f} GiB take {each * kept:.0f} GiB; the disk has {disk:.0f} GiB",
            f"set {run.name(_KEEP)}={fits - 1}" if fits > 1 else "take a larger disk",
            "warning",
        )


def _checkpoint_gib(run: VerlRun) -> float:
    """Size of the actor's checkpoint; a LoRA adapter's optimizer counts nothing beside the weights."""
    contents, params = run.get(_CONTENTS), run.shape().params or 0
    names = contents if isinstance(contents, list) else ["model", "optimizer"]
    sizes = dict(_BYTES)
    if run.text(_DTYPE) in ("bf16", "bfloat16"):
        sizes["model"] = 2
    if lora_rank(run) > 0:
        del sizes["optimizer"]
    return params * sum(sizes.get(name, 0) for name in names if isinstance(name, str)) / _GIB


@rule(versions="<0.7")
def the_only_checkpoint_survives(run: VerlRun) -> Iterator[Verdict]:
    """VRL231: the only checkpoint is deleted before the next one is written.

    Why: up to 0.6 old checkpoints make room before a save. With max_actor_ckpt_to_keep=1 a crash during the save leaves
        none.
    Example: trainer.max_actor_ckpt_to_keep=1, with verl 0.6
    Instead: trainer.max_actor_ckpt_to_keep=2
    Source: verl/utils/checkpoint/fsdp_checkpoint_manager.py; verl pull request 4873
    """
    if run.get(_KEEP) == 1 and run.integer(_FREQ) > 0:
        message = f"{run.shown(_KEEP)} deletes the only checkpoint before the next one is written"
        yield Verdict("VRL231", (_KEEP,), message, f"set {run.name(_KEEP)}=2", "warning")


@rule(entries=("main_ppo",))
def something_is_saved(run: VerlRun) -> Iterator[Verdict]:
    """VRL277: the run never saves the model.

    Why: verl's default save_freq=-1 saves nothing, not even after the last step.
    Example: nothing about trainer.save_freq
    Instead: trainer.save_freq=20
    Source: verl/trainer/ppo/v1/trainer_base.py, verl/trainer/ppo/ray_trainer.py
    """
    if run.has(_FREQ) and not run.is_set(_FREQ) and run.integer(_FREQ) < 1 and not run.flag("trainer.val_only"):
        message = f"{run.shown(_FREQ)} saves nothing, not even at the end"
        meant = "0 to save at the end alone" if run.source == "config" else "-1 to say that this is meant"
        yield Verdict("VRL277", (_FREQ,), message, f"set {run.name(_FREQ)}=20, or {meant}", "note")


@rule(versions=">=0.8", engines=("megatron",))
def weights_cross_the_bridge(run: VerlRun) -> Iterator[Verdict]:
    """VRL238: Megatron without its bridge to Hugging Face weights.

    Why: from 0.8 on the engine loads, exports and saves weights through the bridge alone and asserts
        use_mbridge=True, in a worker that already holds its GPU. hf_model in save_contents needs it too.
    Example: model_engine=megatron actor_rollout_ref.actor.megatron.use_mbridge=False
    Instead: actor_rollout_ref.actor.megatron.use_mbridge=True
    Source: verl/workers/engine/megatron/transformer_impl.py
    """
    for key in _BRIDGES:
        if run.is_set(key) and not run.flag(key):
            message = f"{run.shown(key)}: verl {run.version} runs Megatron with the bridge only"
            yield Verdict("VRL238", (key,), message, f"set {run.name(key)}=True", fix=Fix("set", key, True))


RULES: tuple[VerlRule, ...] = (
    saves_can_be_found_again,
    resume_path_is_a_step,
    resumed_ranks_are_the_same,
    checkpoints_fit_on_the_disk,
    the_only_checkpoint_survives,
    something_is_saved,
    weights_cross_the_bridge,
)
