"""The second half of the table: roles, rollout, training, devices, the run itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verlcli.config.verl import codecs
from verlcli.config.verl.groups import ChosenMicroBatch, Engine, Resume, RewardFile, RewardModel
from verlcli.config.verl.pairs import Field, Pair, View

_ACTOR, _ROLLOUT, _REF = (f"actor_rollout_ref.{role}" for role in ("actor", "rollout", "ref"))
_FSDP, _MEGATRON = f"{_ACTOR}.fsdp_config", f"{_ACTOR}.megatron"
_CRITIC_FSDP = ("critic.fsdp", "critic.model.fsdp_config")


def _log_prob_sizes(view: View) -> tuple[str, ...]:
    """Passes that verl sizes apart from training; under dynamic sizes it reads none of them."""
    if view.value("training.use_dynamic_bsz"):
        return ()
    reference = (f"{_REF}.log_prob_micro_batch_size_per_gpu",) if view.value("algorithm.kl_coef") else ()
    critic = ("critic.ppo_micro_batch_size_per_gpu",) if view.has_critic else ()
    return (f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu", *reference, *critic)


def _critic(key: str) -> Callable[[View], tuple[str, ...]]:
    """What the critic has of its own under verl, and shares with the actor here."""
    return lambda view: (key,) if view.has_critic else ()


def _critic_engine(key: str, megatron: str) -> Callable[[View], tuple[str, ...]]:
    """The same below the section of the critic's training engine, wherever this version has it."""

    def follow(view: View) -> tuple[str, ...]:
        sections = ("critic.megatron",) if view.tree.engine == "megatron" else _CRITIC_FSDP
        section = next((part for part in sections if view.tree.is_section(part)), None)
        name = megatron if view.tree.engine == "megatron" else key
        return (f"{section}.{name}",) if section and view.has_critic else ()

    return follow


def _fsdp(name: str, verl: str = "", **more: Any) -> Field:
    key, last = verl or name, "dtype" if verl else name
    return Field(f"training.fsdp_config.{name}", (f"{_FSDP}.{key}",), follow=_critic_engine(key, last), **more)


def _optimizer(role: str, verl: str) -> tuple[Field, ...]:
    section = f"{verl}.optim"
    return (
        Field(f"{role}.optim.lr", (f"{section}.lr",)),
        Field(f"{role}.optim.weight_decay", (f"{section}.weight_decay",)),
        Field(f"{role}.optim.betas", (f"{section}.betas",)),
        Field(f"{role}.optim.clip_grad", (f"{section}.clip_grad", f"{verl}.grad_clip")),
        Field(
            f"{role}.optim.lr_scheduler",
            (f"{section}.lr_scheduler_type", f"{section}.warmup_style"),
            megatron=(f"{section}.lr_decay_style",),
        ),
        Field(
            f"{role}.optim.warmup_steps",
            (f"{section}.lr_warmup_steps",),
            decode=codecs.warmup,
            note="verl's -1 without a ratio is 0",
        ),
    )


ROLE_PAIRS: tuple[Pair, ...] = (
    *(
        Field(
            f"{role}.dtype",
            names,
            megatron=(),
            encode=codecs.unless_auto,
            only_said=True,
            note="precision of the weights; `auto` and null: verl's own default",
        )
        for role, names in {
            "actor": (f"{_FSDP}.model_dtype",),
            "critic": ("critic.fsdp.model_dtype", "critic.model.fsdp_config.model_dtype"),
            "reference": (f"{_REF}.fsdp_config.model_dtype",),
        }.items()
    ),
    *(
        Field(
            f"{role}.ulysses_sequence_parallel_size",
            tuple(f"{section}.ulysses_sequence_parallel_size" for section in sections),
            megatron=(),
        )
        for role, sections in {
            "actor": (_FSDP, _ACTOR),
            "critic": ("critic.fsdp", "critic"),
            "reference": (f"{_REF}.fsdp_config", _REF),
        }.items()
    ),
    *_optimizer("actor", _ACTOR),
    Field("critic.path", ("critic.model.path",), encode=codecs.critic_path, note="null with a critic is `model.path`"),
    *_optimizer("critic", "critic"),
    RewardModel(),
    RewardFile(),
)

ROLLOUT_PAIRS: tuple[Pair, ...] = (
    Field(
        "rollout.name",
        (f"{_ROLLOUT}.name",),
        encode=codecs.engine_name,
        others=("actor.rollout_engine",),
        note="null: not handed on",
    ),
    Field("rollout.n", (f"{_ROLLOUT}.n",)),
    Field("rollout.temperature", (f"{_ROLLOUT}.temperature",)),
    Field("rollout.top_p", (f"{_ROLLOUT}.top_p",)),
    Field(
        "rollout.top_k",
        (f"{_ROLLOUT}.top_k",),
        encode=codecs.off_as_minus_one,
        decode=codecs.minus_one_as_off,
        note="0 (off) is -1",
    ),
    *(
        Field(f"rollout.{name}", (f"{_ROLLOUT}.{name}",))
        for name in (
            "tensor_model_parallel_size",
            "gpu_memory_utilization",
            "max_num_batched_tokens",
            "max_num_seqs",
        )
    ),
)

TRAINING_PAIRS: tuple[Pair, ...] = (
    Field(
        "training.ppo_mini_batch_size",
        (f"{_ACTOR}.ppo_mini_batch_size",),
        encode=codecs.mini_batch,
        note="null is `data.train_batch_size`",
    ),
    Field(
        "training.ppo_micro_batch_size_per_gpu",
        (f"{_ACTOR}.ppo_micro_batch_size_per_gpu",),
        encode=codecs.unless_null,
        decode=codecs.not_null,
        follow=_log_prob_sizes,
        note="also for the log-prob passes and the critic, unless `verl:` says otherwise",
    ),
    Field("training.use_dynamic_bsz", (f"{_ACTOR}.use_dynamic_bsz",)),
    ChosenMicroBatch(),
    Field("training.max_token_len_per_gpu", (f"{_ACTOR}.ppo_max_token_len_per_gpu",)),
    Field("training.ppo_epochs", (f"{_ACTOR}.ppo_epochs",)),
    _fsdp("param_offload", megatron=(f"{_MEGATRON}.param_offload",)),
    _fsdp("optimizer_offload", megatron=(f"{_MEGATRON}.optimizer_offload",)),
    _fsdp(
        "mixed_precision",
        "mixed_precision.param_dtype",
        megatron=(f"{_MEGATRON}.dtype",),
        encode=codecs.compute_dtype,
        decode=codecs.short_dtype,
        free=True,
        note="Megatron's `bf16` is `bfloat16`; `auto` and null: verl's own default, bf16",
    ),
    _fsdp("reshard_after_forward", megatron=()),
    _fsdp(
        "fsdp_size",
        megatron=(),
        encode=codecs.all_as_minus_one,
        decode=codecs.minus_one_as_all,
        note="null (all) is -1",
    ),
)

RUN_PAIRS: tuple[Pair, ...] = (
    Engine(),
    Field("distributed.nnodes", ("trainer.nnodes",)),
    Field(
        "distributed.gpus_per_node",
        ("trainer.n_gpus_per_node",),
        encode=codecs.unless_null,
        decode=codecs.not_null,
        note="null: verl's default of 8",
    ),
    Field("distributed.device", ("trainer.device",), encode=codecs.unless_auto, only_said=True),
    Field(
        "distributed.skip_grad_sync",
        (f"{_FSDP}.use_no_sync_for_gradient_accumulation",),
        megatron=(),
        only_said=True,
        follow=_critic("critic.fsdp.use_no_sync_for_gradient_accumulation"),
    ),
    Field(
        "distributed.ray_address",
        ("ray_kwargs.ray_init.address",),
        encode=codecs.unless_null,
        decode=codecs.not_null,
        free=True,
    ),
    Field(
        "trainer.total_steps",
        ("trainer.total_training_steps",),
        decode=codecs.positive,
        follow=lambda view: ("trainer.total_epochs",),
        note="as many epochs too, unless `verl:` says otherwise: verl would stop after 30",
    ),
    *(
        Field(
            f"trainer.{name}",
            (f"trainer.{name}",),
            encode=codecs.steps_between,
            decode=codecs.positive,
            note="0 is 1000000000; verl's -1 (never) stays under `verl:`",
        )
        for name in ("save_freq", "test_freq")
    ),
    Field(
        "trainer.keep_checkpoints",
        ("trainer.max_actor_ckpt_to_keep",),
        follow=_critic("trainer.max_critic_ckpt_to_keep"),
    ),
    Field("trainer.output_dir", ("trainer.default_local_dir",), encode=codecs.unless_null, only_said=True),
    Field(
        "trainer.loggers",
        ("trainer.logger",),
        encode=codecs.loggers,
        decode=codecs.logger_names,
        note="verl's `console` is always meant; `jsonl` is `file`",
    ),
    Resume(),
)
