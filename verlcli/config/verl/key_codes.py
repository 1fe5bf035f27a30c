"""Explanation of each code about a single key or value."""

from __future__ import annotations

KEY_TEXTS = {
    "VRL227": """VRL227: a reward setting stands under its old name, where verl accepts and ignores it.

    Why: since 0.9 main_ppo reads rewards from reward.* alone. The old keys are still in the tree, so that nothing
        stops: the run trains on the default reward of the data source instead of the one that was asked for.
    Example: custom_reward_function.path=reward.py, reward_model.reward_manager=dapo
    Instead: reward.custom_reward_function.path=reward.py, reward.reward_manager.name=dapo
    Source: verl/trainer/config/legacy_reward_impl.yaml
    """,
    "VRL240": """VRL240: verl has no such key.

    Why: without a + Hydra stops at once with "Could not override", and does not say which key is meant. With a +
        or in a YAML file the key is added, and nothing reads it.
    Example: data.max_prompt_lenght=512
    Instead: data.max_prompt_length=512
    Source: verl/trainer/config; Hydra 1.3
    """,
    "VRL250": """VRL250: a + stands before a key that has a value already.

    Why: + adds what is not there. Hydra stops with "Could not append to config. An item is already at ...".
    Example: +actor_rollout_ref.rollout.n=5
    Instead: actor_rollout_ref.rollout.n=5
    Source: Hydra 1.3, config_loader_impl.py
    """,
    "VRL251": """VRL251: a key that has to be added stands without its +.

    Why: engine arguments and some fields are legal but not listed in verl's YAML. Hydra stops with "Could not override"
        unless a + adds them.
    Example: actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4
    Instead: +actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4
    Source: Hydra 1.3, config_loader_impl.py
    """,
    "VRL252": """VRL252: a key is added to a section whose class does not have it.

    Why: verl makes an object of the section inside a worker, after the GPUs are taken: "got an unexpected keyword
        argument".
    Example: +actor_rollout_ref.rollout.bogus=1
    Instead: the name of a field of that class, or no key
    Source: verl/utils/config.py; verl/workers/config
    """,
    "VRL253": """VRL253: the rollout engine has no argument of that name.

    Why: everything below engine_kwargs goes to vLLM or SGLang as it is. The server stops when it reads its arguments,
        on the GPU node. Arguments differ from release to release, so this is a warning.
    Example: +actor_rollout_ref.rollout.engine_kwargs.vllm.max_num_seq=64
    Instead: +actor_rollout_ref.rollout.engine_kwargs.vllm.max_num_seqs=64
    Source: vllm/engine/arg_utils.py; sglang/srt/server_args.py
    """,
    "VRL254": """VRL254: a value is of the wrong type.

    Why: Hydra does not check types, nor does verl at its start. The run stops where the value is first used, or takes a
        text such as 'no' for true.
    Example: actor_rollout_ref.rollout.n=five, trainer.balance_batch=no
    Instead: actor_rollout_ref.rollout.n=5, trainer.balance_batch=False
    Source: verl/trainer/config; verl/workers/config
    """,
    "VRL255": """VRL255: a value is none of those that verl knows.

    Why: most names are looked up where they are used, in a worker and after models are loaded. Where users can register
        names of their own, an unknown one is a warning.
    Example: algorithm.adv_estimator=grop
    Instead: algorithm.adv_estimator=grpo
    Source: verl/trainer/ppo/core_algos.py; verl/workers/config
    """,
    "VRL256": """VRL256: a number is out of range.

    Why: verl checks few ranges itself; most are found by the engine that gets the number, or by a division by zero.
    Example: actor_rollout_ref.rollout.gpu_memory_utilization=1.7
    Instead: actor_rollout_ref.rollout.gpu_memory_utilization=0.7
    Source: verl/workers/config; the engines' own checks
    """,
    "VRL257": """VRL257: a number is legal, but hardly meant.

    Why: a slip such as a lost minus in 1e-6 passes every check and ruins the run.
    Example: actor_rollout_ref.actor.optim.lr=1e6
    Instead: actor_rollout_ref.actor.optim.lr=1e-6
    Source: verl's example scripts
    """,
    "VRL258": """VRL258: nothing stands behind the equals sign.

    Why: verl gets an empty text, not its default. It stops where the value is used, or takes it for a name or a path.
    Example: trainer.nnodes=$NNODES, where NNODES is empty
    Instead: a value, or no override at all
    Source: Hydra 1.3, override grammar
    """,
    "VRL259": """VRL259: a key is to be removed that is not there.

    Why: Hydra stops with "Could not delete from config". That holds for keys that are null, too.
    Example: ~trainer.foo
    Instead: leave the override out
    Source: Hydra 1.3, config_loader_impl.py
    """,
    "VRL260": """VRL260: a config group, or its choice, does not exist in this version.

    Why: Hydra stops with "Could not find" and the list of options. model_engine came with 0.8; before, Megatron was
        chosen by --config-name=ppo_megatron_trainer.
    Example: model_engine=megatorn
    Instead: model_engine=megatron
    Source: verl/trainer/config
    """,
    "VRL261": """VRL261: a key without a default is not set.

    Why: verl leaves actor_rollout_ref.rollout.name to the user since 0.6. Nothing checks it before a worker stops with
        MissingMandatoryValue.
    Example: no actor_rollout_ref.rollout.name
    Instead: actor_rollout_ref.rollout.name=vllm
    Source: verl/trainer/config/rollout/rollout.yaml
    """,
    "VRL262": """VRL262: a key or strategy belongs to another training engine.

    Why: each engine has a tree of keys of its own, chosen by model_engine. Setting the strategy alone does not load it:
        Hydra stops with "Could not override".
    Example: actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2, and no model_engine
    Instead: model_engine=megatron beside it
    Source: verl/trainer/config/model_engine
    """,
    "VRL263": """VRL263: a key of another version of verl.

    Why: keys were renamed and removed from release to release. Hydra stops without naming the new one; some old names
        are accepted and ignored.
    Example: trainer.val_generations_to_log_to_wandb=10
    Instead: trainer.log_val_generations=10
    Source: verl's release tags
    """,
    "VRL264": """VRL264: a key of a fork of verl.

    Why: EasyR1, Search-R1, TTRL, rLLM and others add keys that verl does not have.
    Example: max_turns=2 (Search-R1)
    Instead: actor_rollout_ref.rollout.multi_turn.max_assistant_turns=2
    Source: the forks' repositories
    """,
    "VRL266": """VRL266: a key that verl reads is removed.

    Why: most of verl reads its config by name and has no default of its own, so that the run stops with
        ConfigAttributeError "Key ... is not in struct", often after models are loaded.
    Example: ~trainer.logger
    Instead: trainer.logger=[console], or nothing
    Source: verl/trainer/ppo/ray_trainer.py
    """,
    "VRL267": """VRL267: a value refers to a key that the config does not have.

    Why: main_ppo resolves the whole config at its start: "InterpolationKeyError: Interpolation key ... not found".
    Example: 'trainer.default_local_dir=/ckpt/${trainer.experiment_nam}'
    Instead: 'trainer.default_local_dir=/ckpt/${trainer.experiment_name}'
    Source: verl/trainer/main_ppo.py; OmegaConf, variable interpolation
    """,
}
