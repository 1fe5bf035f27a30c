#!/bin/bash
# A LoRA adapter on one 24 GB GPU; CUDA_VISIBLE_DEVICES picks which.
set -euo pipefail
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
export HF_HUB_ENABLE_HF_TRANSFER=1
model=Qwen/Qwen2.5-0.5B-Instruct
case "${1:-gsm8k}" in
    gsm8k) data=$HOME/data/gsm8k ;;
    math) data=$HOME/data/math ;;
    *) echo "usage: $0 [gsm8k|math]" >&2; exit 2 ;;
esac
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files=$data/train.parquet data.val_files=$data/test.parquet \
    data.train_batch_size=32 \
    actor_rollout_ref.model.path=$model \
    actor_rollout_ref.model.lora_rank=32 \
    actor_rollout_ref.model.lora_alpha=32 \
    actor_rollout_ref.model.target_modules=all-linear \
    actor_rollout_ref.actor.optim.lr=3e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=16 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=5 \
    actor_rollout_ref.rollout.load_format=safetensors \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.4 \
    actor_rollout_ref.rollout.max_model_len=1024 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 \
    trainer.n_gpus_per_node=1 trainer.nnodes=1 \
    'trainer.logger=[console,tensorboard]' \
    trainer.save_freq=-1
