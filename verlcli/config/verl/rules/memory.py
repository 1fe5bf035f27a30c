"""Rules about what training holds: bounds for a GPU and a node, from the model's parameters alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import (
    ACTOR,
    GPUS,
    MODEL,
    NODES,
    ROLLOUT,
    expect_fsdp,
    has_own_rollout_gpus,
    has_ref_copy,
    lora_rank,
    runs_on_cuda,
    shape_at,
    size,
    strategy,
)
from verlcli.config.verl.run import VerlRun

GIB = 1024**3
_UTIL = f"{ROLLOUT}.gpu_memory_utilization"
_FSDP = f"{ACTOR}.fsdp_config"
_PARAM, _OPTIMIZER = f"{_FSDP}.param_offload", f"{_FSDP}.optimizer_offload"
BF16, _FP32 = 2, 4  # bytes
_RESERVE_GIB = 5.0  # CUDA contexts, NCCL and CUDA graphs that stay on the GPU (verl issue 5979)
_HOST_SHARE = 0.8  # of a node's memory; the rest is for the system, data and Ray's object store


def params(run: VerlRun, key: str = f"{MODEL}.path") -> int:
    """Parameters of the model at `key`.

    Raises:
        NotKnown: its shape or its family is not known.
    """
    count = shape_at(run, key).params
    if count is None:
        raise NotKnown(f"the number of parameters of {run.text(key)}, whose family is not known here")
    return count


def gpu_gib(run: VerlRun) -> float:
    """Memory of one GPU of the cluster, in GiB.

    Raises:
        NotKnown: nobody named the cluster; silently when it has no GPU, or the launch runs on NPUs.
    """
    gpu = run.cluster.gpu if runs_on_cuda(run) else None
    if gpu is None:
        raise NotKnown
    return gpu.memory_gib


def billions(count: int) -> str:
    """A number of parameters for a sentence: `7.62B`."""
    return f"{count / 1e9:.3g}B"


def _shards(run: VerlRun) -> int:
    """GPUs over which FSDP shards one copy of the weights."""
    wanted = run.integer(f"{_FSDP}.fsdp_size") if run.has(f"{_FSDP}.fsdp_size") else -1
    return wanted if 0 < wanted < run.gpus else run.gpus


def _weight_bytes(run: VerlRun) -> int:
    """Bytes of one weight as FSDP keeps it."""
    kind = run.get(f"{_FSDP}.model_dtype")
    return BF16 if kind in ("bf16", "bfloat16", "fp16", "float16") else _FP32


def _is_offloaded_always(run: VerlRun) -> bool:
    return strategy(run) != "fsdp" and run.has(f"{_FSDP}.offload_policy") and run.flag(f"{_FSDP}.offload_policy")


@dataclass(frozen=True, slots=True)
class _States:
    """What FSDP keeps for the actor, in GiB of one shard."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        """All of it, as during an update."""
        return self.weights + self.gradients + self.optimizer


def _states(run: VerlRun) -> _States:
    """Adam keeps two numbers for each trained weight; with LoRA trained ones are few enough to leave out."""
    expect_fsdp(run)
    shard = params(run) * _weight_bytes(run) / _shards(run) / GIB
    return _States(shard, 0, 0) if lora_rank(run) > 0 else _States(shard, shard, 2 * shard)


@rule(engines=("dp",))
def states_fit_the_gpu(run: VerlRun) -> Iterator[Verdict]:
    """VRL214: weights, gradients and optimizer state are larger than a GPU.

    Why: during an update FSDP holds its shard of all of them on the GPU: 16 bytes a parameter in fp32 (4 weights,
        4 gradients, 8 Adam), 8 in bf16, divided by the GPUs that share a copy. param_offload and optimizer_offload do
        not lower that, they free the GPU while the rollout runs; offload_policy of fsdp2 does.
    Example: a model of 32B parameters trained in full on 4 GPUs of 80 GB
    Instead: more GPUs, LoRA, or actor.strategy=fsdp2 with fsdp_config.offload_policy=True
    Source: verl/workers/engine/base.py; verl issues 966, 5979
    """
    if _is_offloaded_always(run):
        return
    memory, states, count = gpu_gib(run), _states(run), params(run)
    if states.total + _RESERVE_GIB > memory:
        per_weight = _weight_bytes(run) * (1 if lora_rank(run) > 0 else 4)
        more = "" if states.total > memory else f", and about {_RESERVE_GIB:g} GiB stay with CUDA, NCCL and the engine"
        yield Verdict(
            "VRL214",
            (GPUS, NODES, f"{MODEL}.path", f"{_FSDP}.fsdp_size"),
            f"{billions(count)} parameters × {per_weight} bytes / {_shards(run)} GPUs = {states.total:.1f} GiB of"
            f" training state a GPU of {memory:.1f} GiB{more}",
            f"use more GPUs, {'' if lora_rank(run) else 'LoRA, '}or strategy=fsdp2 with offload_policy=True",
            "error" if states.total > memory else "warning",
        )


@rule(engines=("dp",))
def engine_and_states_share_the_gpu(run: VerlRun) -> Iterator[Verdict]:
    """VRL214: the rollout engine's share and what training leaves on the GPU do not fit together.

    Why: while the engine generates, the trainer's weights stay on the GPU unless param_offload moves them, and Adam's
        state unless optimizer_offload does. The engine claims gpu_memory_utilization of the whole GPU beside them, so
        it runs out of memory when it wakes up after the first update.
    Example: gpu_memory_utilization=0.9 with optimizer_offload=False
    Instead: optimizer_offload=True param_offload=True, or gpu_memory_utilization=0.6
    Source: verl/workers/engine_workers.py; verl issue 302
    """
    if run.get(f"{ROLLOUT}.name") != "vllm" or has_own_rollout_gpus(run) or _is_offloaded_always(run):
        return
    memory, states, share = gpu_gib(run), _states(run), run.number(_UTIL)
    left = (0 if run.flag(_PARAM) else states.weights) + (0 if run.flag(_OPTIMIZER) else states.optimizer)
    if states.total <= memory and left > 0 and 0 < share <= 1 and left + share * memory > memory:
        yield Verdict(
            "VRL214",
            (_UTIL, _OPTIMIZER, _PARAM),
            f"training leaves {left:.1f} GiB on the GPU while the engine claims {share:g} × {memory:.1f} ="
            f" {share * memory:.1f} GiB: more than there is",
            f"set {run.name(_PARAM)}=True and {run.name(_OPTIMIZER)}=True, or {run.name(_UTIL)} to"
            f" {max(int(100 * (1 - (left + _RESERVE_GIB) / memory)), 10) / 100:g} or less",
            "warning",
        )


@rule(engines=("dp",))
def offloaded_states_fit_the_node(run: VerlRun) -> Iterator[Verdict]:
    """VRL220: what is offloaded is larger than a node's memory.

    Why: param_offload moves 4 bytes a parameter to the host (2 in bf16), optimizer_offload 8 (4); a reference policy
        that is a model of its own always lives there. Each node holds the shards of its GPUs. While loading, one
        process of the first node holds the whole model once more. The kernel kills a process when memory runs out,
        which shows as "actor died unexpectedly".
    Example: param_offload=True optimizer_offload=True for 72B parameters on 4 nodes of 256 GB
    Instead: more nodes or memory, or LoRA
    Source: verl/workers/engine/fsdp/transformer_impl.py; verl issues 4120, 3453, 1964
    """
    keys = (_PARAM, _OPTIMIZER)
    always = _is_offloaded_always(run)
    if not runs_on_cuda(run) or not (always or has_ref_copy(run) or any(run.flag(key) for key in keys)):
        return
    room, states, count = run.cluster.ram_gib, _states(run), params(run)
    if room is None:
        raise NotKnown("the memory of a node: add ram=512G to --cluster")
    actor = (
        states.total
        if always
        else sum(part for part, key in ((states.weights, _PARAM), (states.optimizer, _OPTIMIZER)) if run.flag(key))
    )
    held = size(run, GPUS) * (actor + (states.weights if has_ref_copy(run) else 0))
    loading = count * _weight_bytes(run) / GIB
    if held > room or held + loading > room * _HOST_SHARE:
        yield Verdict(
            "VRL220",
            (*keys, NODES, GPUS),
            f"offloaded state of {billions(count)} parameters takes {held:.0f} GiB of a node's {room:g} GiB"
            + ("" if held > room else f", and {loading:.0f} GiB more while the model is loaded"),
            "use more nodes, or nodes with more memory; LoRA needs a fraction of it",
            "error" if held > room else "warning",
        )


RULES: tuple[VerlRule, ...] = (
    states_fit_the_gpu,
    engine_and_states_share_the_gpu,
    offloaded_states_fit_the_node,
)
