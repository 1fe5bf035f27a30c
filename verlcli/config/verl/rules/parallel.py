"""Rules about how the rollout engines divide their GPUs: tensor, data, pipeline and expert parallelism."""

from __future__ import annotations

import math
from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._pools import Pool, rollout_pools
from verlcli.config.verl.rules._reading import (
    DP,
    MODEL,
    PP,
    ROLLOUT,
    TP,
    at_least,
    divisors,
    heads_fit,
    listed,
    shape_at,
    size,
)
from verlcli.config.verl.run import VerlRun

_EP = f"{ROLLOUT}.expert_parallel_size"


def _tensor_sizes(run: VerlRun, code: str) -> list[int]:
    """Sizes of tensor parallelism that solve a problem: engines fill GPUs and nodes, and share the heads if known."""
    others, gpus = size(run, DP) * size(run, PP), _common_gpus(run)
    filling = [number for number in divisors(gpus) if gpus % (number * others) == 0]
    return good_values(run, code, TP, filling) or filling


def _common_gpus(run: VerlRun) -> int:
    """GPUs of the rollout's pool; of two the number whose divisors fill both."""
    return math.gcd(*(pool.gpus for pool in rollout_pools(run)))


def _fits_nodes(pool: Pool, engine: int) -> bool:
    """Whether each engine of the rollout stays inside a node, or takes whole ones."""
    return pool.gpus <= pool.per_node or max(engine, pool.per_node) % min(engine, pool.per_node) == 0


@rule()
def rollout_engines_fill_the_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL201: one rollout engine's GPUs do not divide the GPUs of the run.

    Why: each rollout engine takes tensor × data × pipeline parallel GPUs, and verl starts as many as fit. When a rest
        stays, it stops with "rollout world_size ... is not divisible by infer_world_size" after Ray is up and models
        are loaded; engines on GPUs of their own leave the rest idle. verl's default of 2 for tensor parallelism hits
        every run on one GPU.
    Example: trainer.n_gpus_per_node=1, and nothing about tensor_model_parallel_size
    Instead: actor_rollout_ref.rollout.tensor_model_parallel_size=1
    Source: verl/workers/engine_workers.py; verl issues 1191, 4569
    """
    engine = size(run, TP) * size(run, DP) * size(run, PP)
    unfilled = [pool for pool in rollout_pools(run) if pool.gpus % engine]
    if unfilled and not run.flag(f"{ROLLOUT}.disaggregation.enabled"):
        # The trainer's pool comes last: verl stops there, while in the other one GPUs stay idle.
        yield _unfilled(run, unfilled[-1], engine)


def _unfilled(run: VerlRun, pool: Pool, engine: int) -> Verdict:
    tp, dp, pp, gpus = size(run, TP), size(run, DP), size(run, PP), pool.gpus
    good = _tensor_sizes(run, "VRL201")
    product = f"{tp} tensor × {dp} data × {pp} pipeline parallel" if dp * pp > 1 else run.shown(TP)
    idle = not pool.is_trainers and engine < gpus
    rest = f", which does not divide {gpus}" + (f": {gpus % engine} stay idle" if idle else "")
    if engine > gpus:
        rest = f", but there {'is' if gpus == 1 else 'are'} {gpus}"
    return Verdict(
        "VRL201",
        (TP, DP, PP, pool.gpus_key, pool.nodes_key),
        f"a rollout engine takes {engine} GPUs ({product}){rest}",
        f"set {run.name(TP)} to {listed(good)}" if good else f"lower {run.name(DP)}",
        "warning" if idle else "error",
        fix=Fix("set", TP, 1) if gpus == 1 else None,
    )


@rule(versions=">=0.6")
def rollout_engines_fill_nodes(run: VerlRun) -> Iterator[Verdict]:
    """VRL202: rollout engines do not fit onto nodes.

    Why: an engine that fits into a node must not straddle two, and a larger one must take whole nodes; verl asserts
        that its GPUs divide by those of a node, or starts it with GPU numbers of another node. With data parallelism
        inside an engine, a node must also hold whole tensor-parallel groups. An engine over several nodes works, but
        every generated token then waits for the network.
    Example: trainer.nnodes=2 trainer.n_gpus_per_node=6 actor_rollout_ref.rollout.tensor_model_parallel_size=4
    Instead: actor_rollout_ref.rollout.tensor_model_parallel_size=2
    Source: verl/workers/rollout/replica.py, verl/workers/rollout/vllm_rollout/vllm_async_server.py; verl issue 2995
    """
    engine = size(run, TP) * size(run, DP) * size(run, PP)
    pools = rollout_pools(run)
    if any(pool.gpus % engine for pool in pools) or run.flag(f"{ROLLOUT}.disaggregation.enabled"):
        return
    for pool in pools:
        if pool.gpus > pool.per_node:
            yield from _over_nodes(run, pool, engine)


def _over_nodes(run: VerlRun, pool: Pool, engine: int) -> Iterator[Verdict]:
    tp, node, keys = size(run, TP), pool.per_node, (TP, DP, pool.gpus_key)
    if not _fits_nodes(pool, engine):
        message = f"a rollout engine of {engine} GPUs does not fit onto nodes of {node} GPUs"
        yield Verdict("VRL202", keys, message, f"set {run.name(TP)} to {listed(_tensor_sizes(run, 'VRL202'))}")
    elif engine > node and node % tp and size(run, DP) > 1:
        message = f"nodes of {node} GPUs do not hold whole tensor-parallel groups of {tp}"
        yield Verdict("VRL202", keys, message, f"set {run.name(TP)} to {listed(_tensor_sizes(run, 'VRL202'))}")
    elif tp > node:
        message = f"each rollout engine spans {tp // node} nodes: every token waits for the network between them"
        inside = [number for number in _tensor_sizes(run, "VRL202") if number <= node]
        advice = f"{run.name(TP)}={inside[-1]} keeps it inside a node, if it fits" if inside else None
        yield Verdict("VRL202", keys, message, advice, "note")


@rule(versions=">=0.6")
def rollout_engine_can_be_built(run: VerlRun) -> Iterator[Verdict]:
    """VRL202: a parallel layout that the rollout engine is not built for.

    Why: verl checks the rollout section inside a worker, when the GPUs are taken already. There experts must be
        spread over exactly tensor × data parallel GPUs, and pipeline parallelism is refused.
    Example: actor_rollout_ref.rollout.expert_parallel_size=2 with tensor_model_parallel_size=1
    Instead: actor_rollout_ref.rollout.expert_parallel_size=1, or as many as tensor × data
    Source: verl/workers/config/rollout.py
    """
    tp, dp, pp, ep, name = size(run, TP), size(run, DP), size(run, PP), size(run, _EP), run.get(f"{ROLLOUT}.name")
    if ep > 1 and ep != tp * dp and name != "trtllm":
        message = f"{run.shown(_EP)} has to equal {tp} tensor × {dp} data = {tp * dp}"
        yield Verdict("VRL202", (_EP, TP, DP), message, f"set it to {listed(sorted({1, tp * dp}))}")
    if pp > 1 and name in ("vllm", "sglang", *(("trtllm",) if at_least(run, "0.8") else ())):
        message = f"verl does not run pipeline parallelism in {name}, and {run.shown(PP)}"
        yield Verdict("VRL202", (PP,), message, f"set it to 1, and raise {run.name(TP)} instead")


@rule()
def heads_fit_the_rollout(run: VerlRun) -> Iterator[Verdict]:
    """VRL203: tensor parallelism of the rollout does not divide the model's heads.

    Why: each tensor-parallel rank takes an equal share of the attention heads, and of the key-value heads or whole
        copies of them. Otherwise the engine refuses the model when it starts.
    Example: actor_rollout_ref.rollout.tensor_model_parallel_size=8 with a model of 28 heads
    Instead: actor_rollout_ref.rollout.tensor_model_parallel_size=4
    Source: vLLM's ModelConfig.verify_with_parallel_config; vLLM issue 2652
    """
    tp = size(run, TP)
    if tp == 1 or run.get(f"{ROLLOUT}.name") not in ("vllm", "sglang"):
        return
    engine = tp * size(run, DP) * size(run, PP)
    if any(pool.gpus % engine or not _fits_nodes(pool, engine) for pool in rollout_pools(run)):
        return  # reported as such, with sizes that divide the heads too
    shape = shape_at(run)
    if not heads_fit(shape, tp):
        fitting = [number for number in divisors(_common_gpus(run)) if heads_fit(shape, number)]
        yield Verdict(
            "VRL203",
            (TP, f"{MODEL}.path"),
            f"{run.shown(TP)} does not divide the model's {shape.num_attention_heads} attention heads"
            f" ({shape.num_key_value_heads} key-value heads)",
            f"set it to {listed(good_values(run, 'VRL203', TP, fitting) or fitting)}",
        )


RULES: tuple[VerlRule, ...] = (
    rollout_engines_fill_the_gpus,
    rollout_engines_fill_nodes,
    rollout_engine_can_be_built,
    heads_fit_the_rollout,
)
