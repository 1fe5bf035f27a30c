"""Keys of verl that are gone, and keys that it accepts and does not heed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_A, _ACTOR, _REF, _ROLLOUT = (
    "actor_rollout_ref",
    "actor_rollout_ref.actor",
    "actor_rollout_ref.ref",
    "actor_rollout_ref.rollout",
)


@dataclass(frozen=True)
class Ignored:
    """A key that is accepted and has no effect."""

    new: str | None  # what has the effect; None: nothing has
    since: Mapping[str, str]  # entry point -> first release that ignores the key
    note: str = ""
    fixed: Mapping[str, str] = field(default_factory=dict)  # entry point -> first release that heeds it again


# Reason for the disappearance of a key, or of all below a section; a key without a reason here is in no list at all.
REMOVED: dict[str, str] = {
    f"{_ROLLOUT}.use_fire_sampling": "FIRE sampling is gone since 0.5",
    f"{_ROLLOUT}.chat_scheduler": "agent loops took over; see rollout.agent",
    f"{_ROLLOUT}.multi_turn.completion_callback": "agent loops took over; see rollout.agent",
    f"{_ROLLOUT}.multi_turn.interaction_config_path": "interactions are part of agent loops since 0.8",
    f"{_ROLLOUT}.sglang_rollout_mode": "rollout runs in server mode alone",
    f"{_ROLLOUT}.server": "no longer in the YAML; the dataclass still takes it with a +",
    f"{_ROLLOUT}.layer_name_map": "no longer in the YAML; the dataclass still takes it with a +",
    f"{_ACTOR}.profile": "use actor.profiler and global_profiler",
    f"{_REF}.profile": "use ref.profiler and global_profiler",
    f"{_A}.profiler": "use actor.profiler, ref.profiler and global_profiler",
    f"{_ACTOR}.megatron.grad_offload": "param_offload frees the gradients too",
    f"{_REF}.megatron.grad_offload": "param_offload frees the gradients too",
    "critic.megatron.grad_offload": "param_offload frees the gradients too",
    f"{_ACTOR}.veomni.activation_gpu_limit": "use enable_async_activation_offload",
    f"{_REF}.veomni.activation_gpu_limit": "use enable_async_activation_offload",
    "critic.veomni.activation_gpu_limit": "use enable_async_activation_offload",
    f"{_ACTOR}.mindspeed": "MindSpeed is no longer an engine of its own",
    f"{_REF}.mindspeed": "MindSpeed is no longer an engine of its own",
    "critic.mindspeed": "MindSpeed is no longer an engine of its own",
    "critic.kl_ctrl": "use algorithm.kl_ctrl",
    "critic.model.gradient_checkpointing_kwargs": "use critic.model.enable_gradient_checkpointing",
    "algorithm.rollout_correction.rollout_token_veto_threshold": "the veto is gone since 0.7",
    "async_training.use_rollout_log_probs": "use algorithm.rollout_correction.bypass_mode",
    "async_training.compute_prox_log_prob": "use algorithm.rollout_correction.bypass_mode=False",
    "rollout.total_epochs": "set rollout.total_rollout_steps",
    "rollout.test_freq": "set trainer.test_freq",
    "trainer.npu_profile": "use global_profiler.tool=npu and profiler.tool_config.npu",
    "trainer.use_legacy_worker_impl": "the engine workers are the only ones since 0.8",
    "data.sampler": "custom samplers are gone since 0.8",
    "data.datagen": "data generation during training is gone since 0.8",
    "reward_model.micro_batch_size": "reward models run in a rollout server since 0.7",
    "reward_model.micro_batch_size_per_gpu": "reward models run in a rollout server since 0.7",
    "reward_model.forward_max_token_len_per_gpu": "reward models run in a rollout server since 0.7",
    "reward_model.param_offload": "reward models run in a rollout server since 0.7",
    "reward_model.strategy": "reward models run in a rollout server since 0.7",
    "reward_model.use_dynamic_bsz": "reward models run in a rollout server since 0.7",
    "reward_model.ulysses_sequence_parallel_size": "reward models run in a rollout server since 0.7",
    "reward_model.max_length": "reward models run in a rollout server since 0.7",
    "reward_model.launch_reward_fn_async": "rewards are always computed beside the rollout since 0.7",
    "reward_model.model.fsdp_config": "reward models run in a rollout server since 0.7",
    "reward_model.megatron": "reward models run in a rollout server since 0.7",
    "reward_model.profiler": "reward models run in a rollout server since 0.7",
}

# verl.experimental.reward_loop.migrate_legacy_reward_impl copies the old keys to the new; these do not call it.
_UNMIGRATED = {"main_ppo": "0.9", "one_step_off": "0.7", "fully_async": "0.7"}
_MIGRATED_AGAIN = {"fully_async": "0.8"}
_LEGACY = {
    "custom_reward_function.path": "reward.custom_reward_function.path",
    "custom_reward_function.name": "reward.custom_reward_function.name",
    "reward_model.num_workers": "reward.num_workers",
    "reward_model.reward_manager": "reward.reward_manager.name",
    "reward_model.reward_loop_source": "reward.reward_manager.source",
    "reward_model.reward_loop_module_path": "reward.reward_manager.module.path",
    "reward_model.reward_loop_class_name": "reward.reward_manager.module.name",
    "reward_model.enable": "reward.reward_model.enable",
    "reward_model.enable_resource_pool": "reward.reward_model.enable_resource_pool",
    "reward_model.n_gpus_per_node": "reward.reward_model.n_gpus_per_node",
    "reward_model.nnodes": "reward.reward_model.nnodes",
    "reward_model.model.path": "reward.reward_model.model_path",
    "reward_model.reward_kwargs": "reward.reward_kwargs",
    "reward_model.rollout": "reward.reward_model.rollout",
    "reward_model.overlong_buffer": "reward.reward_kwargs.overlong_buffer_cfg",
    "sandbox_fusion.url": "reward.sandbox_fusion.url",
    "sandbox_fusion.max_concurrent": "reward.sandbox_fusion.max_concurrent",
    "sandbox_fusion.memory_limit_mb": "reward.sandbox_fusion.memory_limit_mb",
}
# Keys that nothing reads any more, each with a rule of its own: never worth suggesting.
WITHOUT_EFFECT: dict[str, str] = {
    f"{_ACTOR}.fsdp_config.dtype": "0.8",  # FSDP reads mixed_precision.param_dtype alone
    "actor_rollout_ref.ref.fsdp_config.dtype": "0.8",
    "data.truncation": "0.8",
}
SILENTLY_IGNORED: dict[str, Ignored] = {
    **{
        old: Ignored(new, _UNMIGRATED, "the run scores with the default reward", _MIGRATED_AGAIN)
        for old, new in _LEGACY.items()
    },
    # Read by the legacy workers alone, which 0.8 removed (verl/workers/engine clips by optim.clip_grad).
    f"{_ACTOR}.grad_clip": Ignored(
        f"{_ACTOR}.optim.clip_grad", {"*": "0.8"}, "gradients are clipped at optim.clip_grad"
    ),
    "critic.grad_clip": Ignored("critic.optim.clip_grad", {"*": "0.8"}, "gradients are clipped at optim.clip_grad"),
}
