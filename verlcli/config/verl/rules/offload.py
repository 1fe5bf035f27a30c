"""Rules about FSDP's offload and precision settings that cancel each other or do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import ACTOR, CRITIC, MODEL, at_least, lora_rank, strategy, uses_critic
from verlcli.config.verl.run import VerlRun

_BF16 = ("bf16", "bfloat16")


def _sections(run: VerlRun) -> Iterator[tuple[str, str]]:
    """FSDP sections of the trained roles, with the role's strategy."""
    yield f"{ACTOR}.fsdp_config", strategy(run)
    if uses_critic(run):
        root = f"{CRITIC}.fsdp" if at_least(run, "0.8") else f"{CRITIC}.model.fsdp_config"
        yield root, run.text(f"{CRITIC}.strategy") or ""


def _is_on(run: VerlRun, key: str) -> bool:
    return run.has(key) and run.flag(key)


@rule(engines=("dp",))
def offload_policy_is_read(run: VerlRun) -> Iterator[Verdict]:
    """VRL218: offload_policy and the settings beside it do not go together.

    Why: offload_policy belongs to FSDP 2; FSDP 1, verl's default, does not read it, and nothing is offloaded. Where
        it is read, it keeps parameters, gradients and optimizer on the CPU by itself, and verl turns param_offload
        and optimizer_offload off.
    Example: actor_rollout_ref.actor.fsdp_config.offload_policy=True, and strategy left at fsdp
    Instead: actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.fsdp_config.offload_policy=True
    Source: verl/workers/engine/fsdp/transformer_impl.py
    """
    for section, kind in _sections(run):
        policy = f"{section}.offload_policy"
        if not _is_on(run, policy):
            continue
        role = CRITIC if section.startswith(CRITIC) else ACTOR
        if kind == "fsdp":
            message = f"{run.shown(policy)} is read by fsdp2 only, and {run.shown(f'{role}.strategy')}"
            advice = f"set {run.name(f'{role}.strategy')}=fsdp2, or use param_offload and optimizer_offload"
            yield Verdict("VRL218", (policy, f"{role}.strategy"), message, advice, "warning")
            continue
        for name in ("param_offload", "optimizer_offload"):
            key = f"{section}.{name}"
            if run.is_set(key) and run.flag(key):
                message = f"{run.shown(key)} does nothing: {run.shown(policy)} keeps all of it on the CPU"
                yield Verdict("VRL218", (key, policy), message, "remove it", "note", fix=Fix("remove", key))


@rule(engines=("dp",))
def offloaded_weights_are_resharded(run: VerlRun) -> Iterator[Verdict]:
    """VRL219: weights are offloaded, but not sharded again after the forward pass.

    Why: with reshard_after_forward=False gathered weights stay on the GPU, while param_offload moves the shards to the
        CPU between phases; runs have died of tensors on two devices.
    Example: actor_rollout_ref.actor.fsdp_config.reshard_after_forward=False with param_offload=True
    Instead: actor_rollout_ref.actor.fsdp_config.reshard_after_forward=True
    Source: verl issue 4974
    """
    for section, _ in _sections(run):
        keep, offload = f"{section}.reshard_after_forward", f"{section}.param_offload"
        if run.has(keep) and run.get(keep) is False and _is_on(run, offload):
            message = f"{run.shown(keep)} keeps gathered weights on the GPU, while {run.shown(offload)} moves them away"
            advice = f"set {run.name(keep)}=True, or {run.name(offload)}=False"
            yield Verdict("VRL219", (keep, offload), message, advice, "warning")


@rule()
def activations_are_offloaded(run: VerlRun) -> Iterator[Verdict]:
    """VRL219: activation offload with a strategy that does not have it.

    Why: verl offloads activations for fsdp and fsdp2. Another FSDP strategy stops at an assertion when the model is
        built; Megatron does not read the key.
    Example: model_engine=megatron actor_rollout_ref.model.enable_activation_offload=True
    Instead: actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full
    Source: verl/utils/activation_offload.py
    """
    key = f"{MODEL}.enable_activation_offload"
    if not _is_on(run, key) or run.engine not in ("dp", "megatron"):
        return
    if run.engine == "megatron":
        message = f"{run.shown(key)} does nothing: Megatron does not read it"
        yield Verdict("VRL219", (key,), message, "remove it; Megatron has recompute_granularity instead", "warning")
    elif strategy(run) not in ("fsdp", "fsdp2"):
        chosen = f"{ACTOR}.strategy"
        message = f"{run.shown(key)} works with fsdp and fsdp2, and {run.shown(chosen)}"
        yield Verdict("VRL219", (key, chosen), message, f"set {run.name(key)}=False")


@rule(engines=("dp",))
def weights_are_trained_in_fp32(run: VerlRun) -> Iterator[Verdict]:
    """VRL221: full fine-tuning with weights kept in bf16.

    Why: model_dtype is the precision in which weights, gradients and optimizer state are kept: bf16 takes 8 bytes a
        parameter instead of 16, but small updates round to nothing at RL's learning rates. Computation is in bf16
        either way. For LoRA, where the base stays as it is, bf16 costs nothing.
    Example: actor_rollout_ref.actor.fsdp_config.model_dtype=bf16 without LoRA
    Instead: actor_rollout_ref.actor.fsdp_config.model_dtype=fp32, unless memory forbids it
    Source: verl/workers/engine/fsdp/transformer_impl.py; verl issue 5308
    """
    key = f"{ACTOR}.fsdp_config.model_dtype"
    if run.is_set(key) and run.get(key) in _BF16 and lora_rank(run) == 0:
        message = f"{run.shown(key)} keeps no fp32 copy of the weights: small updates round to nothing"
        yield Verdict("VRL221", (key,), message, "use fp32 (verl's default) where memory allows it", "note")


RULES: tuple[VerlRule, ...] = (
    offload_policy_is_read,
    offloaded_weights_are_resharded,
    activations_are_offloaded,
    weights_are_trained_in_fp32,
)
