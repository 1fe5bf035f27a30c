python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo \
  actor_rollout_ref.model.path=Qwen/Qwen3-1.7B actor_rollout_ref.rollout.name=sglang actor_rollout_ref.rollout.n=16 \
  actor_rollout_ref.actor.use_kl_loss=True actor_rollout_ref.actor.kl_loss_coef=0.01 \
  actor_rollout_ref.actor.kl_loss_type=mse \
  algorithm.use_kl_in_reward=True algorithm.kl_ctrl.kl_coef=0.003
