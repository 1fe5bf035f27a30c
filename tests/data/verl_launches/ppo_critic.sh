export VLLM_USE_V1=1
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae \
  algorithm.gamma=1.0 algorithm.lam=0.95 \
  actor_rollout_ref.model.path=/models/base critic.model.path=/models/value \
  critic.optim.lr=1e-5 critic.optim.lr_warmup_steps=10 critic.cliprange_value=0.2 \
  actor_rollout_ref.actor.ppo_mini_batch_size=128 \
  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 critic.ppo_micro_batch_size_per_gpu=16 \
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16 \
  actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16 \
  actor_rollout_ref.actor.fsdp_config.param_offload=True critic.fsdp.param_offload=False \
  algorithm.use_kl_in_reward=True algorithm.kl_penalty=kl algorithm.kl_ctrl.kl_coef=0.002 \
  trainer.max_actor_ckpt_to_keep=2 trainer.max_critic_ckpt_to_keep=2
