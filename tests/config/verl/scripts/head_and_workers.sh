#!/usr/bin/env bash
# Started on every node; the first one is the head.
set -ex
NNODES=${WORLD_SIZE:-2}
PORT=6379
if [ "${RANK:-0}" -eq 0 ]; then
    ray start --head --port=$PORT --num-gpus=8
    sleep 10
    python3 -m verl.trainer.main_ppo \
        algorithm.adv_estimator=gae \
        data.train_batch_size=512 \
        actor_rollout_ref.model.path=/models/Qwen2.5-7B-Instruct \
        actor_rollout_ref.actor.ppo_mini_batch_size=128 \
        actor_rollout_ref.actor.use_dynamic_bsz=True \
        actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \
        actor_rollout_ref.rollout.name=vllm \
        actor_rollout_ref.rollout.max_model_len=2048 \
        critic.model.fsdp_config.param_offload=True \
        critic.ppo_micro_batch_size_per_gpu=8 \
        trainer.nnodes=$NNODES \
        trainer.n_gpus_per_node=8
else
    ray start --address="$MASTER_ADDR:$PORT" --num-gpus=8 --block
fi
