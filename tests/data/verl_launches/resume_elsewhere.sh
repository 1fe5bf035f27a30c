python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b \
  trainer.resume_mode=resume_path trainer.resume_from_path=/old/global_step_40 \
  trainer.save_freq=-1 trainer.test_freq=-1
