python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b '~actor_rollout_ref.rollout.seed' \
  actor_rollout_ref.actor.fsdp_config.use_no_sync_for_gradient_accumulation=True trainer.device=cuda \
  data.train_max_samples=1000 data.val_max_samples=-1 data.seed=7 data.dataloader_num_workers=2 data.shuffle=False
