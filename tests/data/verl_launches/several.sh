python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=first/model trainer.nnodes=1
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=second/model trainer.nnodes=2 \
  +ray_kwargs.ray_init.address=auto
