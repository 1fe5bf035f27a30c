#!/usr/bin/env bash
# Rollout and training on GPUs of their own: four and four of one node.
set -xeuo pipefail

n_gpus_rollout=4
n_gpus_training=4
n_resp_per_prompt=8
staleness=0.5
sp_size=2
max_prompt=1024
max_response=4096
len_per_gpu=$(( (max_prompt + max_response + sp_size - 1) / sp_size * 2 ))

overrides=(
    "data.train_files=[$HOME/data/dapo/train.parquet]"
    "data.val_files=[$HOME/data/aime/test.parquet]"
    data.train_batch_size=0
    data.gen_batch_size=1
    data.max_prompt_length=$max_prompt
    data.max_response_length=$max_response
    algorithm.adv_estimator=grpo
    actor_rollout_ref.hybrid_engine=False
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B
    actor_rollout_ref.actor.strategy=fsdp2
    critic.strategy=fsdp2
    actor_rollout_ref.actor.ppo_mini_batch_size=32
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$len_per_gpu
    actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=$sp_size
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n=$n_resp_per_prompt
    actor_rollout_ref.rollout.tensor_model_parallel_size=1
    actor_rollout_ref.rollout.max_model_len=$((max_prompt + max_response))
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
    actor_rollout_ref.rollout.calculate_log_probs=True
    actor_rollout_ref.rollout.checkpoint_engine.backend=nccl
    async_training.staleness_threshold=$staleness
    async_training.trigger_parameter_sync_step=4
    async_training.partial_rollout=True
    rollout.nnodes=1
    rollout.n_gpus_per_node=$n_gpus_rollout
    rollout.total_rollout_steps=$((512 * 100))
    trainer.nnodes=1
    trainer.n_gpus_per_node=$n_gpus_training
    trainer.save_freq=-1
)
python3 -m verl.experimental.fully_async_policy.fully_async_main "${overrides[@]}"
