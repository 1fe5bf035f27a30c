"""Defaults of verl that changed so that the same command does something else."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.facts.verl.trees import VERSIONS

_ACTOR, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"


@dataclass(frozen=True)
class Flip:
    """A default that changed between two of VERSIONS."""

    version: str  # the first with the new default
    old: object  # None also for a key that did not exist
    new: object
    effect: str
    engine: str | None = None  # None: of every engine


DEFAULT_FLIPS: dict[str, tuple[Flip, ...]] = {
    f"{_ACTOR}.entropy_coeff": (Flip("0.5.0", 0.001, 0, "no entropy bonus (since 0.4)"),),
    f"{_ROLLOUT}.name": (Flip("0.6.1", "vllm", "???", "the rollout engine must be named"),),
    f"{_ROLLOUT}.mode": (Flip("0.7.1", "sync", "async", "rollout runs in servers"),),
    f"{_ROLLOUT}.enforce_eager": (
        Flip("0.6.1", True, False, "CUDA graphs: faster rollout, 1 to 3 GB more GPU memory"),
    ),
    f"{_ROLLOUT}.max_num_seqs": (Flip("0.9.0", 1024, 256, "fewer sequences at once: less memory, slower rollout"),),
    f"{_ROLLOUT}.calculate_log_probs": (Flip("0.9.0", False, True, "rollout returns log-probabilities"),),
    f"{_ROLLOUT}.enable_chunked_prefill": (Flip("0.6.1", False, True, "long prompts are split", "megatron"),),
    f"{_ROLLOUT}.tensor_model_parallel_size": (Flip("0.6.1", 1, 2, "a rollout engine wants two GPUs", "megatron"),),
    f"{_MODEL}.use_remove_padding": (
        Flip("0.7.1", False, True, "padding is removed: faster, and flash-attn must be installed", "dp"),
        Flip("0.8.0", False, True, "padding is removed", "megatron"),
    ),
    "critic.model.use_remove_padding": (Flip("0.8.0", False, True, "padding is removed in the critic", "dp"),),
    "critic.optim.lr": (Flip("0.6.1", 1e-6, 1e-5, "the critic learns ten times faster", "megatron"),),
    "critic.optim.lr_decay_style": (Flip("0.6.1", "linear", "constant", "the rate no longer falls", "megatron"),),
    "data.return_raw_chat": (Flip("0.7.1", False, True, "agent loops get the messages, not the tokens"),),
    "trainer.use_v1": (Flip("0.9.0", None, True, "the new trainer, which needs the package TransferQueue"),),
    "algorithm.filter_groups.metric": (Flip("0.9.1", None, "reward", "groups are filtered by reward"),),
    f"{_ACTOR}.megatron.use_mbridge": (Flip("0.7.1", False, True, "weights go through mbridge", "megatron"),),
    f"{_ACTOR}.megatron.vanilla_mbridge": (
        Flip("0.9.0", True, False, "weights go through Megatron-Bridge, not mbridge", "megatron"),
    ),
    f"{_ACTOR}.megatron.dist_ckpt_optim_fully_reshardable": (
        Flip("0.8.0", True, False, "an optimizer checkpoint loads with the same parallel sizes alone", "megatron"),
    ),
}
for _name, _old in (("tensor_model_parallel_size", 1), ("pipeline_model_parallel_size", 1), ("param_offload", False)):
    _new = f"${{oc.select:{_ACTOR}.megatron.{_name},{_old}}}"
    DEFAULT_FLIPS[f"actor_rollout_ref.ref.megatron.{_name}"] = (
        Flip("0.7.1", _old, _new, "the reference model follows the actor", "megatron"),
    )


def flips(key: str, since: str, until: str, engine: str = "dp") -> tuple[Flip, ...]:
    """Changes of a key's default on the way from one of VERSIONS to a later one, oldest first."""
    first, last = VERSIONS.index(since), VERSIONS.index(until)
    found = [flip for flip in DEFAULT_FLIPS.get(key, ()) if first < VERSIONS.index(flip.version) <= last]
    return tuple(flip for flip in found if flip.engine in (None, engine))
