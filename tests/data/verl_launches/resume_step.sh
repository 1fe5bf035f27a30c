python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b trainer.default_local_dir=/ckpt/run \
  trainer.resume_mode=resume_path 'trainer.resume_from_path=${trainer.default_local_dir}/global_step_40' \
  trainer.save_freq=20 trainer.test_freq=5
