python3 -m verl.trainer.main_ppo data.train_files=$HOME/data/train.parquet \
  "data.val_files=[$HOME/data/a.parquet,/data/b.parquet]" \
  actor_rollout_ref.model.path=$MODEL_DIR trainer.nnodes=$SLURM_NNODES \
  trainer.experiment_name=run_$(date +%s) actor_rollout_ref.rollout.name=vllm
