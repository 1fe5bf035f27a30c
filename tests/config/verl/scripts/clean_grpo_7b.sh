#!/usr/bin/env bash
# GRPO of a 7B model on one node with eight GPUs.
set -xeuo pipefail

MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-7B-Instruct}
DATA_DIR=${DATA_DIR:-$HOME/data/gsm8k}
NGPUS=${NGPUS:-8}
TP=${TP:-2}
BSZ=${BSZ:-256}
MINI=$((BSZ / 4))
MAX_PROMPT=1024
MAX_RESPONSE=2048
EXPERIMENT="qwen2.5-7b-bsz${BSZ}-tp${TP}"

mkdir -p logs
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="$DATA_DIR/train.parquet" \
    data.val_files="$DATA_DIR/test.parquet" \
    data.train_batch_size=$BSZ \
    data.max_prompt_length=$MAX_PROMPT \
    data.max_response_length=$MAX_RESPONSE \
    data.filter_overlong_prompts=True \
    actor_rollout_ref.model.path="$MODEL_PATH" \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.actor.ppo_mini_batch_size=$MINI \
    actor_rollout_ref.actor.use_dynamic_bsz=True \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=$((2 * (MAX_PROMPT + MAX_RESPONSE))) \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.001 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=$TP \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
    actor_rollout_ref.rollout.max_model_len=$((MAX_PROMPT + MAX_RESPONSE)) \
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True \
    trainer.logger='["console","wandb"]' \
    trainer.project_name=gsm8k \
    trainer.experiment_name="$EXPERIMENT" \
    trainer.n_gpus_per_node=$NGPUS \
    trainer.nnodes=1 \
    trainer.save_freq=50 \
    trainer.test_freq=10 \
    trainer.max_actor_ckpt_to_keep=2 \
    trainer.total_epochs=10 "$@" 2>&1 | tee "logs/$EXPERIMENT.log"
