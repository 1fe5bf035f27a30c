#!/bin/bash
set -e
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_batch_size=128 \
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B \
    actor_rollout_ref.model.lora.rank=64 \
    actor_rollout_ref.actor.strategy=fsdp2 \
    actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
    +actor_rollout_ref.rollout.temperature=0.7 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.max_model_len=1024 \
    actor_rollout_ref.rollout.engine_kwargs.vllm.max_loras=2 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
    trainer.logger=console,wandb \
    trainer.total_epoch=3
