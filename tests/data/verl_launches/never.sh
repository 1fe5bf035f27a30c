python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b trainer.resume_mode=disable \
  trainer.total_training_steps=500 trainer.total_epochs=100 trainer.max_actor_ckpt_to_keep=null
