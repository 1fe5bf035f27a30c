adv_estimator=grpo
max_prompt_length=$((1024 * 2))
clip_ratio_low=0.2
clip_ratio_high=0.28
use_dynamic_bsz=True
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=${adv_estimator} \
    data.max_prompt_length=${max_prompt_length} data.truncation='left' \
    data.gen_batch_size=1536 data.train_batch_size=512 \
    actor_rollout_ref.model.path=${MODEL_PATH:-Qwen/Qwen2.5-32B} \
    actor_rollout_ref.actor.clip_ratio_low=${clip_ratio_low} \
    actor_rollout_ref.actor.clip_ratio_high=${clip_ratio_high} \
    actor_rollout_ref.actor.clip_ratio_c=10.0 \
    actor_rollout_ref.actor.use_kl_loss=False actor_rollout_ref.actor.kl_loss_coef=0.0 \
    algorithm.use_kl_in_reward=False algorithm.kl_ctrl.kl_coef=0.0 \
    actor_rollout_ref.actor.use_dynamic_bsz=${use_dynamic_bsz} \
    actor_rollout_ref.ref.log_prob_use_dynamic_bsz=${use_dynamic_bsz} \
    actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=${use_dynamic_bsz} \
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=22528 \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    actor_rollout_ref.rollout.top_k=-1 actor_rollout_ref.rollout.top_p=1.0 \
    +reward.reward_kwargs.overlong_buffer_cfg.enable=True \
    actor_rollout_ref.actor.fsdp_config.fsdp_size=-1 \
    algorithm.filter_groups.enable=True actor_rollout_ref.rollout.name=vllm
