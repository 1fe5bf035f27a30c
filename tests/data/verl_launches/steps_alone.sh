python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b trainer.total_training_steps=500
