"""Keys of verl that have another name now, from the trees of its tags; 0.1 to 0.4 from their YAML."""

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
class Rename:
    """A key that has another name since a release."""

    new: str
    since: str  # verl release: "0.6"
    note: str = ""
    value_map: Mapping[str, str] = field(default_factory=dict)  # old value -> new value, as text
    entry: str = "main_ppo"  # whose tree has the new key
    engine: str = "dp"


_STEPS = {"True": "reinforce", "False": "ppo_clip"}
RENAMES: dict[str, Rename] = {
    "trainer.val_generations_to_log_to_wandb": Rename("trainer.log_val_generations", "0.4"),
    "trainer.remove_previous_ckpt_in_save": Rename(
        "trainer.max_actor_ckpt_to_keep", "0.4", "a number of checkpoints now", {"True": "1", "False": "null"}
    ),
    f"{_ACTOR}.checkpoint.contents": Rename(f"{_ACTOR}.checkpoint.save_contents", "0.4", "load_contents follows it"),
    "critic.checkpoint.contents": Rename("critic.checkpoint.save_contents", "0.4", "load_contents follows it"),
    f"{_ROLLOUT}.multi_turn.max_turns": Rename(f"{_ROLLOUT}.multi_turn.max_assistant_turns", "0.4"),
    f"{_ROLLOUT}.micro_batch_size": Rename(f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", "0.2", "per GPU now"),
    f"{_REF}.param_offload": Rename(f"{_REF}.fsdp_config.param_offload", "0.2", "Megatron: ref.megatron.param_offload"),
    "trainer.resume_path": Rename(
        "trainer.resume_from_path", "0.5", "with trainer.resume_mode=resume_path", entry="sft_legacy"
    ),
    "rollout.micro_batch_size": Rename("rollout.log_prob_micro_batch_size", "0.2", entry="generation"),
    "ray_init.num_cpus": Rename("ray_kwargs.ray_init.num_cpus", "0.6"),
    "ray_init.timeline_json_file": Rename("ray_kwargs.timeline_json_file", "0.6"),
    "trainer.profile_steps": Rename("global_profiler.steps", "0.6", "choose global_profiler.tool too"),
    f"{_ROLLOUT}.update_weights_bucket_megabytes": Rename(
        f"{_ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes", "0.7"
    ),
    "algorithm.rollout_correction.use_policy_gradient": Rename(
        "algorithm.rollout_correction.loss_type", "0.7", "only with bypass_mode", _STEPS
    ),
    "algorithm.rollout_correction.rollout_rs_threshold_lower": Rename(
        "algorithm.rollout_correction.rollout_rs_threshold", "0.7", "both bounds in one text: lower_upper"
    ),
    "optim.warmup_steps_ratio": Rename("optim.lr_warmup_steps_ratio", "0.6", entry="sft"),
    "optim.lr_scheduler": Rename("optim.lr_scheduler_type", "0.7", entry="sft"),
    "model.partial_pretrain": Rename("model.path", "0.7", entry="sft"),
    "model.strategy": Rename("engine.strategy", "0.7", entry="sft"),
    "model.fsdp_config.model_dtype": Rename("engine.model_dtype", "0.7", entry="sft"),
    "model.fsdp_config.cpu_offload": Rename("engine.offload_policy", "0.7", "fsdp2 alone", entry="sft"),
    "model.fsdp_config.offload_params": Rename("engine.param_offload", "0.7", entry="sft"),
    "data.micro_batch_size": Rename("data.micro_batch_size_per_gpu", "0.7", "per GPU now", entry="sft"),
    "data.multiturn.messages_key": Rename("data.messages_key", "0.7", entry="sft"),
    "data.multiturn.tools_key": Rename("data.tools_key", "0.7", entry="sft"),
    "data.multiturn.enable_thinking_key": Rename("data.enable_thinking_key", "0.7", entry="sft"),
    "ulysses_sequence_parallel_size": Rename("engine.ulysses_sequence_parallel_size", "0.7", entry="sft"),
    "use_remove_padding": Rename("model.use_remove_padding", "0.7", entry="sft"),
    "trainer.checkpoint.save_contents": Rename("checkpoint.save_contents", "0.7", entry="sft"),
    "trainer.checkpoint.load_contents": Rename("checkpoint.load_contents", "0.7", entry="sft"),
    f"{_ROLLOUT}.skip_rollout": Rename("skip.rollout.enable", "0.9", "0.8: rollout.skip.enable"),
    f"{_ROLLOUT}.skip_dump_dir": Rename("skip.rollout.dump_dir", "0.9", "0.8: rollout.skip.dump_dir"),
    f"{_ROLLOUT}.skip.enable": Rename("skip.rollout.enable", "0.9"),
    f"{_ROLLOUT}.skip.dump_dir": Rename("skip.rollout.dump_dir", "0.9"),
    f"{_ROLLOUT}.skip.action": Rename("skip.rollout.action", "0.9"),
    f"{_ROLLOUT}.skip.max_dump_step": Rename("skip.rollout.steps", "0.9", "a list of steps now"),
}
# Sections that moved as a whole; `*` is the rest of the key.
SECTION_RENAMES: dict[str, Rename] = {
    "critic.model.fsdp_config.*": Rename("critic.fsdp.*", "0.8"),
    "trainer.controller_nsight_options.*": Rename(
        "global_profiler.global_tool_config.nsys.controller_nsight_options.*", "0.6"
    ),
    "trainer.worker_nsight_options.*": Rename("global_profiler.global_tool_config.nsys.worker_nsight_options.*", "0.6"),
    "reward_model.sandbox_fusion.*": Rename("reward.sandbox_fusion.*", "0.7"),
    f"{_ACTOR}.router_replay.*": Rename(f"{_ACTOR}.megatron.router_replay.*", "0.9.1", engine="megatron"),
    f"{_REF}.router_replay.*": Rename(f"{_REF}.megatron.router_replay.*", "0.9.1", engine="megatron"),
}
for _role in (_ACTOR, _REF, "critic"):
    RENAMES[f"{_role}.megatron.num_layers_per_virtual_pipeline_stage"] = Rename(
        f"{_role}.megatron.virtual_pipeline_model_parallel_size", "0.2", "a number of stages now", engine="megatron"
    )
    RENAMES[f"{_role}.profiler.discrete"] = Rename(f"{_role}.profiler.tool_config.nsys.discrete", "0.6")
for _name in ("method", "granularity", "num_layers"):
    RENAMES[f"{_A}.model.gradient_checkpointing_kwargs.activations_checkpoint_{_name}"] = Rename(
        f"{_ACTOR}.megatron.override_transformer_config.recompute_{_name}", "0.5", engine="megatron"
    )

for _name in ("loss_mode", "clip_cov_ratio", "clip_cov_lb", "clip_cov_ub"):
    RENAMES[f"{_ACTOR}.{_name}"] = Rename(f"{_ACTOR}.policy_loss.{_name}", "0.5", "flat in the entropy recipe before")

# Still heeded, with a warning.
DEPRECATED: dict[str, Rename] = {
    f"{_ACTOR}.optim.warmup_style": Rename(f"{_ACTOR}.optim.lr_scheduler_type", "0.6"),
    "critic.optim.warmup_style": Rename("critic.optim.lr_scheduler_type", "0.6"),
    f"{_ACTOR}.ppo_micro_batch_size": Rename(f"{_ACTOR}.ppo_micro_batch_size_per_gpu", "0.2", "per GPU, not in all"),
    f"{_REF}.log_prob_micro_batch_size": Rename(
        f"{_REF}.log_prob_micro_batch_size_per_gpu", "0.2", "per GPU, not in all"
    ),
    f"{_ROLLOUT}.log_prob_micro_batch_size": Rename(
        f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", "0.2", "per GPU, not in all"
    ),
    "critic.ppo_micro_batch_size": Rename("critic.ppo_micro_batch_size_per_gpu", "0.2", "per GPU, not in all"),
    f"{_ACTOR}.ulysses_sequence_parallel_size": Rename(f"{_ACTOR}.fsdp_config.ulysses_sequence_parallel_size", "0.7"),
}
# Names that no release had, and the key that is meant.
NEVER_EXISTED: dict[str, str] = {
    f"{_ACTOR}.fsdp_config.grad_offload": f"{_ACTOR}.fsdp_config.param_offload",  # FSDP moves gradients with parameters
    "critic.fsdp.grad_offload": "critic.fsdp.param_offload",
    "critic.model.fsdp_config.grad_offload": "critic.model.fsdp_config.param_offload",
    f"{_ACTOR}.dtype": f"{_ACTOR}.fsdp_config.mixed_precision.param_dtype",
    f"{_REF}.dtype": f"{_REF}.fsdp_config.mixed_precision.param_dtype",
    f"{_A}.model.torch_dtype": f"{_ACTOR}.fsdp_config.model_dtype",
    f"{_A}.model.enable_activation_offloading": f"{_A}.model.enable_activation_offload",
    f"{_ACTOR}.model_engine": "model_engine",
    f"{_ACTOR}.lr": f"{_ACTOR}.optim.lr",
    f"{_ACTOR}.gradient_checkpointing": f"{_A}.model.enable_gradient_checkpointing",
    f"{_ACTOR}.kl_coef": f"{_ACTOR}.kl_loss_coef",
    f"{_ACTOR}.kl_loss_weight": f"{_ACTOR}.kl_loss_coef",
    f"{_ACTOR}.learning_rate": f"{_ACTOR}.optim.lr",
    f"{_ACTOR}.micro_batch_size_per_gpu": f"{_ACTOR}.ppo_micro_batch_size_per_gpu",
    f"{_ACTOR}.entropy_coef": f"{_ACTOR}.entropy_coeff",
    f"{_A}.model.gradient_checkpointing": f"{_A}.model.enable_gradient_checkpointing",
    f"{_A}.model.model_path": f"{_A}.model.path",
    f"{_ROLLOUT}.tensor_parallel_size": f"{_ROLLOUT}.tensor_model_parallel_size",
    f"{_ROLLOUT}.tp_size": f"{_ROLLOUT}.tensor_model_parallel_size",
    f"{_ROLLOUT}.num_generations": f"{_ROLLOUT}.n",
    f"{_ROLLOUT}.num_return_sequences": f"{_ROLLOUT}.n",
    f"{_ROLLOUT}.max_new_tokens": "data.max_response_length",
    f"{_ROLLOUT}.max_tokens": "data.max_response_length",
    f"{_ROLLOUT}.micro_batch_size_per_gpu": f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    "algorithm.kl_coef": "algorithm.kl_ctrl.kl_coef",
    "algorithm.clip_ratio": f"{_ACTOR}.clip_ratio",
    "algorithm.name": "algorithm.adv_estimator",
    "data.batch_size_per_step": "data.train_batch_size",
    "trainer.gpus_per_node": "trainer.n_gpus_per_node",
    "trainer.n_gpus": "trainer.n_gpus_per_node",
    "trainer.output_dir": "trainer.default_local_dir",
    "trainer.max_steps": "trainer.total_training_steps",
    "trainer.num_epochs": "trainer.total_epochs",
    "trainer.eval_freq": "trainer.test_freq",
    "trainer.val_freq": "trainer.test_freq",
}
# Values of a key, by its last name, that another one took the place of.
VALUE_RENAMES: dict[str, dict[str, str]] = {
    "load_format": dict.fromkeys(("dummy_dtensor", "dummy_megatron", "dummy_hf"), "dummy"),
}
# Modules that moved -> the new module and the first release that has it.
MODULE_RENAMES: dict[str, tuple[str, str]] = {
    "verl.trainer.fsdp_sft_trainer": ("verl.trainer.sft_trainer", "0.6"),
    "verl.trainer.main_generation": ("verl.trainer.main_generation_server", "0.6"),
    "verl.trainer.main_ppo_sync": ("verl.trainer.main_ppo", "0.9"),
    "recipe.transfer_queue.main_ppo": ("verl.trainer.main_ppo", "0.9"),
    "recipe.one_step_off_policy.main_ppo": ("verl.experimental.one_step_off_policy.main_ppo", "0.7"),
    "recipe.one_step_off_policy.async_main_ppo": ("verl.experimental.one_step_off_policy.main_ppo", "0.7"),
    "verl.experimental.one_step_off_policy.async_main_ppo": ("verl.experimental.one_step_off_policy.main_ppo", "0.7"),
    "recipe.fully_async_policy.fully_async_main": ("verl.experimental.fully_async_policy.fully_async_main", "0.7"),
}
