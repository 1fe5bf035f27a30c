#!/bin/bash
set -x
MODEL_PATH=Qwen/Qwen2.5-3B-Instruct
LR=1e-6
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_batch_size=128 \
    actor_rollout_ref.model.path=$MODEL_PTH \
    actor_rollout_ref.actor.optim.lr = $LR \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.max_model_len=1024 \
    trainer.n_gpus_per_node=8 \
    # trainer.save_freq=20 \
    trainer.test_freq=5 \
    trainer.total_epochs=2
