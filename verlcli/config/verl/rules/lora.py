"""Rules about bringing LoRA adapters from the trainer to the rollout engine (FSDP)."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import is_adapter, strategy
from verlcli.config.verl.run import VerlRun

_RANK = "actor_rollout_ref.model.lora_rank"
_SUMMON = "actor_rollout_ref.rollout.layered_summon"
_STRATEGY, _POLICY = "actor_rollout_ref.actor.strategy", "actor_rollout_ref.actor.fsdp_config.offload_policy"


@rule(versions=">=0.9", engines=("dp",))
def one_rank_is_not_sharded(run: VerlRun) -> Iterator[Verdict]:
    """VRL245: LoRA with layered_summon on one GPU.

    Why: FSDP 1 on a single rank does not shard (NO_SHARD). Where gathering layer by layer then finds nothing, the way
        out that verl takes asks for an offload to the CPU, which NO_SHARD does not have: NotImplementedError at the
        first weight sync.
    Example: trainer.n_gpus_per_node=1 actor_rollout_ref.model.lora_rank=32
        actor_rollout_ref.rollout.layered_summon=True
    Instead: actor_rollout_ref.rollout.layered_summon=False
    Source: verl/utils/fsdp_utils.py; verl-omni issue 618
    """
    if run.flag(_SUMMON) and strategy(run) == "fsdp" and run.gpus == 1 and is_adapter(run):
        yield Verdict(
            "VRL245",
            (_SUMMON, "trainer.n_gpus_per_node", _RANK, _STRATEGY),
            f"{run.shown(_SUMMON)} with LoRA on one GPU may stop at the first weight sync: nothing is sharded there",
            f"set {run.name(_SUMMON)}=False; it saves nothing on one GPU",
            "warning",
            fix=Fix("set", _SUMMON, False),
        )


@rule(engines=("dp",))
def summoned_layers_are_on_the_gpu(run: VerlRun) -> Iterator[Verdict]:
    """VRL246: LoRA with layered_summon while FSDP 2 keeps the weights on the CPU.

    Why: offload_policy leaves the shards in host memory, and NCCL cannot gather those: the run stops with a device
        mismatch (cpu and cuda) at the first weight sync.
    Example: actor_rollout_ref.actor.strategy=fsdp2 actor_rollout_ref.actor.fsdp_config.offload_policy=True
        actor_rollout_ref.rollout.layered_summon=True
    Instead: actor_rollout_ref.rollout.layered_summon=False
    Source: verl/utils/fsdp_utils.py; verl issue 5390
    """
    if run.flag(_SUMMON) and strategy(run) == "fsdp2" and run.flag(_POLICY) and is_adapter(run):
        yield Verdict(
            "VRL246",
            (_SUMMON, _POLICY, _STRATEGY, _RANK),
            f"{run.shown(_SUMMON)} gathers layers on the GPU, but {run.shown(_POLICY)} keeps them on the CPU",
            f"set {run.name(_POLICY)}=False with param_offload=True, or {run.name(_SUMMON)}=False",
        )


RULES: tuple[VerlRule, ...] = (one_rank_is_not_sharded, summoned_layers_are_on_the_gpu)
