#!/bin/bash
# Qwen3-30B-A3B with Megatron, handed to a Ray cluster that runs already.
set -e
export RAY_ADDRESS=${RAY_ADDRESS:-http://127.0.0.1:8265}
WORKING_DIR=${WORKING_DIR:-"${PWD}"}
RUNTIME_ENV=${RUNTIME_ENV:-"${WORKING_DIR}/verl/trainer/runtime_env.yaml"}
NNODES=${NNODES:-2}
TP=4 PP=2 EP=4
offload=True
common=(actor_rollout_ref.model.path="$HOME/models/Qwen3-30B-A3B")
for part in actor ref; do
    common+=(
        actor_rollout_ref.$part.megatron.tensor_model_parallel_size=$TP
        actor_rollout_ref.$part.megatron.pipeline_model_parallel_size=$PP
        actor_rollout_ref.$part.megatron.expert_model_parallel_size=$EP
        actor_rollout_ref.$part.megatron.expert_tensor_parallel_size=1
        actor_rollout_ref.$part.megatron.param_offload=$offload
    )
done

ray job submit --no-wait --runtime-env="$RUNTIME_ENV" --working-dir "$WORKING_DIR" \
    -- python3 -m verl.trainer.main_ppo model_engine=megatron \
    algorithm.adv_estimator=grpo \
    data.train_files="['$HOME/data/gsm8k/train.parquet','$HOME/data/math/train.parquet']" \
    data.val_files="['$HOME/data/gsm8k/test.parquet']" \
    data.train_batch_size=128 \
    "${common[@]}" \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \
    actor_rollout_ref.actor.megatron.optimizer_offload=$offload \
    +actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload=True \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=4 \
    actor_rollout_ref.rollout.max_model_len=2048 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
    trainer.nnodes="$NNODES" \
    trainer.n_gpus_per_node=8 \
    trainer.default_local_dir=/shared/checkpoints/moe \
    trainer.save_freq=-1
