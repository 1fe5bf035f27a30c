python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b \
  reward.custom_reward_function.path=rewards.py reward.custom_reward_function.name=score \
  reward.reward_model.enable=True reward.reward_model.model_path=org/judge
