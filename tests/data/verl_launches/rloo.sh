python3 -m verl.trainer.main_ppo algorithm.adv_estimator=rloo actor_rollout_ref.model.path=a/b \
  actor_rollout_ref.rollout.n=4 actor_rollout_ref.rollout.name=trtllm \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
  +actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp16 actor_rollout_ref.actor.fsdp_config.model_dtype=bf16
