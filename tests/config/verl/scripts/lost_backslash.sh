#!/bin/bash
export WANDB_API_KEY=$(cat ~/.wandb)
export NCCL_DEBUG=INFO
ray job submit --address="http://127.0.0.1:8265" \
    --runtime-env-json='{"working_dir": "./"}' \
    -- python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_batch_size=256 \
    actor_rollout_ref.model.path=/models/Qwen2.5-7B \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \ 
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
    actor_rollout_ref.rollout.name=vllm \
    trainer.nnodes=2
