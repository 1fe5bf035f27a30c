"""Rules about checkpoints: what is saved, how much room it takes, and what engines need to write them."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import lora_rank
from verlcli.config.verl.run import VerlRun

_ACTOR = "actor_rollout_ref.actor"
_ASYNC, _CONTENTS = f"{_ACTOR}.checkpoint.async_save", f"{_ACTOR}.checkpoint.save_contents"
_FREQ, _STEPS, _KEEP = "trainer.save_freq", "trainer.total_training_steps", "trainer.max_actor_ckpt_to_keep"
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
    checkpoints_fit_on_the_disk,
    the_only_checkpoint_survives,
    something_is_saved,
    weights_cross_the_bridge,
)
