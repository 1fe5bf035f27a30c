#!/bin/bash
# A launch inside a string, inside a container, with quotes that eat the list.
IMAGE=verlai/verl:app
MODEL=Qwen/Qwen2.5-1.5B
N=1
docker run --gpus all --rm -v "$HOME:/root" "$IMAGE" bash -c "
    pip install verl==0.8.0 &&
    python3 -m verl.trainer.main_ppo \
        algorithm.adv_estimator=rloo \
        data.train_batch_size=64 \
        actor_rollout_ref.model.path=$MODEL \
        actor_rollout_ref.actor.ppo_mini_batch_size=128 \
        actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 \
        actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 \
        actor_rollout_ref.rollout.name=vllm \
        actor_rollout_ref.rollout.max_model_len=1024 \
        actor_rollout_ref.rollout.n=$N \
        reward.reward_manager.name=naive \
        trainer.save_freq=-1 \
        trainer.loger=console"
