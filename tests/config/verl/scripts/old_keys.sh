#!/bin/bash
# As people wrote it for 0.4, run against a newer verl.
set -x
export VLLM_ATTENTION_BACKEND=XFORMERS
MODEL=${MODEL:-"Qwen/Qwen2.5-7B"}
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files=$HOME/data/train.parquet \
    data.val_files=$HOME/data/test.parquet \
    data.train_batch_size=256 \
    actor_rollout_ref.model.path=$MODEL \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
    actor_rollout_ref.actor.checkpoint.contents=['model','optimizer'] \
    actor_rollout_ref.actor.fsdp_config.grad_offload=False \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.mode=sync \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.max_model_len=1024 \
    actor_rollout_ref.rollout.use_fire_sampling=False \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \
    reward_model.reward_manager=dapo \
    custom_reward_function.path=/opt/rewards/score.py \
    trainer.val_generations_to_log_to_wandb=5 \
    ray_init.num_cpus=64 \
    trainer.n_gpus_per_node=8
