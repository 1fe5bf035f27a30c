"""The one table of our keys and verl's: import, export, checks and the reference page are made from it.

A pair stands here only where both sides mean the same; keys that verl alone has go under `verl:` as they are.
"""

from __future__ import annotations

from verlcli.config.verl import codecs
from verlcli.config.verl.groups import Kl
from verlcli.config.verl.mapping_algorithm import ALGORITHM_GROUPS
from verlcli.config.verl.mapping_run import ROLE_PAIRS, ROLLOUT_PAIRS, RUN_PAIRS, TRAINING_PAIRS
from verlcli.config.verl.pairs import Field, Pair

BASE = "verl-defaults"  # preset that holds verl's defaults
_ACTOR, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.model"

_MODEL_PAIRS: tuple[Pair, ...] = (
    Field("model.path", (f"{_MODEL}.path",), encode=codecs.unless_null, note="null: not handed on"),
    Field(
        "model.attn_implementation",
        (f"{_MODEL}.override_config.attn_implementation",),
        megatron=(),
        encode=codecs.unless_auto,
        free=True,
        note="`auto`: verl's own choice, FlashAttention 2",
    ),
    Field("model.lora_rank", (f"{_MODEL}.lora_rank",), megatron=(f"{_MODEL}.lora.rank",)),
    Field("model.lora_alpha", (f"{_MODEL}.lora_alpha",), megatron=(f"{_MODEL}.lora.alpha",), encode=codecs.adapters),
    Field(
        "model.lora_target_modules",
        (f"{_MODEL}.target_modules",),
        megatron=(f"{_MODEL}.lora.target_modules",),
        encode=codecs.adapter_modules,
        note="Megatron has no `all-linear`",
    ),
    Field(
        "model.enable_gradient_checkpointing",
        (f"{_MODEL}.enable_gradient_checkpointing",),
        megatron=(),
        encode=codecs.checkpointing,
        others=("model.use_recompute", "training.recompute"),
        note="on when either of our two names is, or `training.recompute` is not `none`",
    ),
    Field("model.trust_remote_code", (f"{_MODEL}.trust_remote_code",)),
)

_DATA_PAIRS: tuple[Pair, ...] = (
    Field("data.train_files", ("data.train_files",), encode=codecs.files, decode=codecs.file_list),
    Field("data.val_files", ("data.val_files",), encode=codecs.files, decode=codecs.file_list),
    Field("data.prompt_key", ("data.prompt_key",)),
    Field("data.max_prompt_length", ("data.max_prompt_length",)),
    Field("data.max_response_length", ("data.max_response_length",)),
    Field("data.train_batch_size", ("data.train_batch_size",)),
    *(
        Field(
            f"data.{name}",
            (f"data.{name}",),
            encode=codecs.all_as_minus_one,
            decode=codecs.minus_one_as_all,
            note="null (all) is -1",
        )
        for name in ("train_max_samples", "val_max_samples")
    ),
    Field("data.truncation", ("data.truncation",)),
    Field(
        "data.num_dataloader_workers",
        ("data.dataloader_num_workers",),
        encode=codecs.whole_number,
        note="`auto` and `min(...)`: not handed on",
    ),
    Field("data.shuffle", ("data.shuffle",)),
    Field(
        "data.seed",
        ("data.seed",),
        encode=codecs.order_seed,
        decode=codecs.not_null,
        others=("trainer.seed",),
        note="null is `trainer.seed`",
    ),
)

_ALGORITHM_PAIRS: tuple[Pair, ...] = (
    Field(
        "algorithm.name",
        ("algorithm.adv_estimator",),
        encode=codecs.algorithm_name,
        decode=codecs.estimator,
        note="`ppo` is `gae`; `dr_grpo`, `dapo`, `gspo` and `cispo` are `grpo` with other keys",
    ),
    Field("algorithm.gamma", ("algorithm.gamma",)),
    Field("algorithm.lam", ("algorithm.lam",)),
    Field("algorithm.clip_ratio", (f"{_ACTOR}.clip_ratio",)),
    *(
        Field(
            f"algorithm.{name}",
            (f"{_ACTOR}.{name}",),
            encode=codecs.clip_side,
            decode=codecs.not_null,
            others=("algorithm.clip_ratio",),
            note="null is `algorithm.clip_ratio`",
        )
        for name in ("clip_ratio_low", "clip_ratio_high")
    ),
    Field("algorithm.clip_ratio_c", (f"{_ACTOR}.clip_ratio_c",), encode=codecs.dual_clip, note="null (off) is 1e9"),
    Field("algorithm.value_clip", ("critic.cliprange_value",)),
    Field("algorithm.norm_adv_by_std", ("algorithm.norm_adv_by_std_in_grpo",)),
    Kl(),
    Field("algorithm.entropy_coef", (f"{_ACTOR}.entropy_coeff",)),
    Field("algorithm.loss_agg_mode", (f"{_ACTOR}.loss_agg_mode",)),
    Field(
        "algorithm.policy_loss",
        (f"{_ACTOR}.policy_loss.loss_mode",),
        encode=codecs.loss_mode,
        decode=codecs.policy_loss,
        note="`clip` is `vanilla`",
    ),
    *ALGORITHM_GROUPS,
)

PAIRS: tuple[Pair, ...] = (
    *_MODEL_PAIRS,
    *_DATA_PAIRS,
    *_ALGORITHM_PAIRS,
    *ROLE_PAIRS,
    *ROLLOUT_PAIRS,
    *TRAINING_PAIRS,
    *RUN_PAIRS,
)
