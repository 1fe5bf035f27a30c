train="['/data/a.parquet','/data/b.parquet']"
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b \
  data.train_files="$train" data.val_files=['/data/v.parquet'] \
  +actor_rollout_ref.model.override_config.attn_implementation=sdpa \
  '+actor_rollout_ref.rollout.engine_kwargs.vllm={swap_space:4,dtype:auto}' \
  '+actor_rollout_ref.actor.fsdp_config.plan={model.layers.\{*\}:{}}' \
  'actor_rollout_ref.actor.checkpoint.save_contents=[model,hf_model]' \
  'actor_rollout_ref.actor.optim.betas=[0.9,0.95]' \
  'trainer.logger=[console,file]' trainer.project_name='a name, with: signs' trainer.experiment_name="it's"
