#!/bin/bash
set -euo pipefail
GPUS=8
TP=3
PROMPTS=100
MINI=$((PROMPTS / 8))
ROLLOUTS=1
CONTEXT=2048
args=(
    algorithm.adv_estimator=grpo
    data.train_batch_size=$PROMPTS
    data.max_prompt_length=$CONTEXT
    data.max_response_length=$((CONTEXT * 2))
    actor_rollout_ref.model.path=Qwen/Qwen2.5-7B
    actor_rollout_ref.actor.ppo_mini_batch_size=$MINI
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.n=$ROLLOUTS
    actor_rollout_ref.rollout.tensor_model_parallel_size=$TP
    actor_rollout_ref.rollout.max_model_len=$((CONTEXT * 3))
    actor_rollout_ref.rollout.gpu_memory_utilization=1.7
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
    trainer.n_gpus_per_node=$GPUS
)
python3 -m verl.trainer.main_ppo "${args[@]}"
