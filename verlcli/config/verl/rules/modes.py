"""Rules about ways to run: synchronous or beside each other, validation alone, with a profiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import at_least, has_own_rollout_gpus, trains_v1
from verlcli.config.verl.run import VerlRun

_A = "actor_rollout_ref"
_BATCH, _GEN_BATCH, _MINI = "data.train_batch_size", "data.gen_batch_size", f"{_A}.actor.ppo_mini_batch_size"
_MODE, _STEP = "trainer.v1.trainer_mode", "trainer.v1.separate_async.parameter_sync_step"
_NODES, _GPUS = f"{_A}.rollout.nnodes", f"{_A}.rollout.n_gpus_per_node"
_SYNC = f"{_A}.rollout.checkpoint_engine.backend"
_RM, _RM_POOL = "reward.reward_model.enable", "reward.reward_model.enable_resource_pool"
_HYBRID, _FREE = f"{_A}.hybrid_engine", f"{_A}.rollout.free_cache_engine"
_WORKERS, _N = f"{_A}.rollout.agent.num_workers", f"{_A}.rollout.n"
_UTIL = f"{_A}.rollout.gpu_memory_utilization"
_MOST_WORKERS = 1024  # looked at for a better number
# torch_memory writes a snapshot when memory runs out, whatever the steps.
_TOOLS_OF_STEPS = ("nsys", "npu", "torch")
_HIGH_UTIL = 0.7  # of a GPU that training needs as well


def _is_separate(run: VerlRun) -> bool:
    return trains_v1(run) and run.text(_MODE) == "separate_async"


@rule(versions=">=0.9", entries=("main_ppo",))
def separate_rollout_has_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL228: separate_async lacks what it insists on: GPUs for the rollout, a way to them, or whole updates.

    Why: in this mode the rollout runs beside the trainer on other GPUs. verl asserts rollout.nnodes and
        rollout.n_gpus_per_node above 0, a checkpoint engine other than naive, a reward model with its own pool, and a
        batch of exactly parameter_sync_step × ppo_mini_batch_size prompts.
    Example: trainer.v1.trainer_mode=separate_async, and nothing about actor_rollout_ref.rollout.nnodes
    Instead: actor_rollout_ref.rollout.nnodes=1 actor_rollout_ref.rollout.n_gpus_per_node=4
        actor_rollout_ref.rollout.checkpoint_engine.backend=nccl
    Source: verl/trainer/ppo/v1/trainer_separate_async.py
    """
    if not _is_separate(run):
        return
    for key in (_NODES, _GPUS):
        if run.get(key) is None or run.integer(key) < 1:
            message = f"{run.shown(_MODE)} generates on GPUs of its own, but {run.shown(key)}"
            yield Verdict("VRL228", (key, _MODE), message, f"set {run.name(key)} to 1 or more")
    if run.text(_SYNC) == "naive":
        message = f"{run.shown(_MODE)} sends weights to other GPUs, which {run.shown(_SYNC)} cannot"
        yield Verdict("VRL228", (_SYNC, _MODE), message, f"set {run.name(_SYNC)}=nccl", fix=Fix("set", _SYNC, "nccl"))
    if run.flag(_RM) and not run.flag(_RM_POOL):
        message = f"{run.shown(_MODE)} has no moment at which a reward model could share the rollout's GPUs"
        yield Verdict("VRL228", (_RM_POOL, _MODE), message, f"set {run.name(_RM_POOL)}=True")


@rule(versions=">=0.9", entries=("main_ppo",))
def separate_batch_is_whole_updates(run: VerlRun) -> Iterator[Verdict]:
    """VRL228: in separate_async the batch is not sync steps × mini batch.

    Why: weights go to the rollout after parameter_sync_step updates of one mini batch each, and a training batch is
        exactly that. verl asserts it when the trainer is built.
    Example: trainer.v1.trainer_mode=separate_async data.train_batch_size=512 ppo_mini_batch_size=64, sync step 4
    Instead: data.train_batch_size=256
    Source: verl/trainer/ppo/v1/trainer_separate_async.py
    """
    if not _is_separate(run):
        return
    batch, mini, steps = run.integer(_BATCH), run.integer(_MINI), run.integer(_STEP)
    if batch != mini * steps:
        also = f", or {run.name(_STEP)}={batch // mini}" if mini > 0 and batch > 0 and batch % mini == 0 else ""
        yield Verdict(
            "VRL228",
            (_BATCH, _STEP, _MINI),
            f"{run.shown(_MODE)} takes batches of {steps} sync steps × {mini} = {steps * mini} prompts, not {batch}",
            f"set {run.name(_BATCH)}={steps * mini}{also}",
        )


@rule(versions=">=0.7", entries=("fully_async",))
def fully_async_has_its_settings(run: VerlRun) -> Iterator[Verdict]:
    """VRL234: fully asynchronous or one-step-off training lacks a setting that it insists on.

    Why: the fully asynchronous rollouter streams single prompts, so it asserts data.train_batch_size=0,
        data.gen_batch_size=1, no hybrid engine, and log-probabilities from the rollout. One-step-off training needs
        GPUs apart too (hybrid_engine=False). The asserts stand in a Ray actor: Ray is up by then.
    Example: verl.experimental.fully_async_policy.fully_async_main data.train_batch_size=512
    Instead: data.train_batch_size=0 data.gen_batch_size=1 actor_rollout_ref.hybrid_engine=False
    Source: verl/experimental/fully_async_policy/fully_async_rollouter.py
    """
    log_probs = f"{_A}.rollout.calculate_log_probs"
    yield from _must_be(run, {_BATCH: 0, _GEN_BATCH: 1, _HYBRID: False, log_probs: True}, "fully asynchronous training")
    if run.has(_RM_POOL) and run.flag(_RM) and not run.flag(_RM_POOL):
        message = "fully asynchronous training never pauses, so a reward model cannot share the rollout's GPUs"
        yield Verdict("VRL234", (_RM_POOL, _RM), message, f"set {run.name(_RM_POOL)}=True")


@rule(versions=">=0.7", entries=("one_step_off",))
def one_step_off_has_its_settings(run: VerlRun) -> Iterator[Verdict]:
    """VRL234: one-step-off training lacks a setting that it insists on.

    Why: trainer and rollout have GPUs of their own, so it asserts actor_rollout_ref.hybrid_engine=False; weights reach
        the engines only while their cache is kept (free_cache_engine=False).
    Example: verl.experimental.one_step_off_policy.main_ppo, and nothing about actor_rollout_ref.hybrid_engine
    Instead: actor_rollout_ref.hybrid_engine=False
    Source: verl/experimental/one_step_off_policy/ray_trainer.py and its config
    """
    yield from _must_be(run, {_HYBRID: False, _FREE: False}, "one-step-off training")


@rule(versions=">=0.7", entries=("fully_async", "one_step_off"))
def weights_reach_the_engines(run: VerlRun) -> Iterator[Verdict]:
    """VRL234: the weights do not reach rollout engines that have GPUs of their own.

    Why: the checkpoint engine naive hands weights over inside one process, to an engine on the same GPU. A trainer
        without one fails at the first weight sync, and the engines elsewhere never get new weights.
    Example: verl.experimental.fully_async_policy.fully_async_main
        actor_rollout_ref.rollout.checkpoint_engine.backend=naive
    Instead: actor_rollout_ref.rollout.checkpoint_engine.backend=nccl
    Source: verl/checkpoint_engine/base.py, verl/workers/engine_workers.py
    """
    # Dynamic scheduling may leave no engine elsewhere.
    if run.has(_SYNC) and run.text(_SYNC) == "naive" and run.get("rollout.nnodes") != 0:
        message = f"engines on GPUs of their own never get new weights with {run.shown(_SYNC)}"
        yield Verdict("VRL234", (_SYNC,), message, f"set {run.name(_SYNC)}=nccl", fix=Fix("set", _SYNC, "nccl"))


def _must_be(run: VerlRun, wanted: dict[str, Any], mode: str) -> Iterator[Verdict]:
    for key, value in wanted.items():
        if run.get(key) != value:
            message = f"{mode} needs {run.name(key)}={value}, not {run.shown(key)}"
            yield Verdict("VRL234", (key,), message, f"set {run.name(key)}={value}", fix=Fix("set", key, value))


@rule(entries=("main_ppo",))
def prompts_divide_over_agents(run: VerlRun) -> Iterator[Verdict]:
    """VRL241: the batch does not divide over the agent loop's workers.

    Why: verl before 0.9, and later with trainer.use_v1=False, deals the samples of a batch to rollout.agent.num_workers
        processes (8 unless set) in equal shares, and stops with "only support equal chunk" when a rest stays.
    Example: data.train_batch_size=20 actor_rollout_ref.rollout.n=3, with verl 0.8
    Instead: actor_rollout_ref.rollout.agent.num_workers=6
    Source: verl/experimental/agent_loop/agent_loop.py, verl/protocol.py; verl issue 6801
    """
    if trains_v1(run) or (run.text(f"{_A}.rollout.mode") or "async") != "async":
        return
    workers, samples = run.integer(_WORKERS), run.integer(_N)
    prompts = run.integer(_BATCH if run.get(_GEN_BATCH) is None else _GEN_BATCH)
    total = prompts * samples
    if workers > 0 and total > 0 and total % workers:
        best = max(size for size in range(1, min(workers, _MOST_WORKERS) + 1) if total % size == 0)
        yield Verdict(
            "VRL241",
            (_WORKERS, _BATCH, _N),
            f"{prompts} prompts × {samples} samples = {total} do not divide over {workers} agent workers; "
            f"{total % workers} are left over",
            f"set {run.name(_WORKERS)}={best}",
            # 0.8 has a second program, main_ppo_sync, that deals unequal shares.
            "warning" if at_least(run, "0.8") and not at_least(run, "0.9") else "error",
        )


@rule(entries=("main_ppo",))
def cache_is_freed(run: VerlRun) -> Iterator[Verdict]:
    """VRL242: the rollout engine keeps its memory while the model is trained on the same GPUs.

    Why: with free_cache_engine=False weights and KV cache of the engine stay, so training has only the share of the GPU
        that gpu_memory_utilization leaves. Above 0.7 that is seldom enough.
    Example: actor_rollout_ref.rollout.free_cache_engine=False actor_rollout_ref.rollout.gpu_memory_utilization=0.8
    Instead: actor_rollout_ref.rollout.free_cache_engine=True
    Source: verl/workers/rollout/vllm_rollout/vllm_async_server.py
    """
    if not run.has(_FREE) or run.flag(_FREE) or not run.flag(_HYBRID) or has_own_rollout_gpus(run):
        return
    share = run.number(_UTIL)
    yield Verdict(
        "VRL242",
        (_FREE, _UTIL),
        f"{run.shown(_FREE)}: the rollout engine keeps {share:.0%} of each GPU during training",
        f"set {run.name(_FREE)}=True, or lower {run.name(_UTIL)}" if share > _HIGH_UTIL else None,
        "warning" if share > _HIGH_UTIL else "note",
    )


@rule()
def validation_alone_runs(run: VerlRun) -> Iterator[Verdict]:
    """VRL276: only validation is asked for, but it is switched off.

    Why: val_only stops after the validation before training. Without val_before_train there is none, and the whole
        training runs.
    Example: trainer.val_only=True trainer.val_before_train=False
    Instead: trainer.val_before_train=True
    Source: verl/trainer/ppo/ray_trainer.py, verl/trainer/ppo/v1/trainer_base.py
    """
    only, before = "trainer.val_only", "trainer.val_before_train"
    if run.flag(only) and run.has(before) and not run.flag(before):
        message = f"{run.shown(only)} with {run.shown(before)} skips validation and trains instead"
        yield Verdict("VRL276", (before, only), message, f"set {run.name(before)}=True", fix=Fix("set", before, True))


@rule(versions=">=0.6")
def profiler_has_a_tool(run: VerlRun) -> Iterator[Verdict]:
    """VRL248: profiling is half configured, so nothing is recorded.

    Why: global_profiler.tool says how and global_profiler.steps says when; with one of them missing the run goes on
        without a word and leaves no trace.
    Example: global_profiler.steps=[1], and no tool
    Instead: global_profiler.tool=torch global_profiler.steps=[1]
    Source: verl/trainer/main_ppo.py, verl/utils/profiler/profile.py
    """
    tool, steps = "global_profiler.tool", "global_profiler.steps"
    if not run.has(tool) or bool(run.get(tool)) == bool(run.get(steps)):
        return
    if run.get(steps):
        message, advice = f"{run.shown(steps)} without {tool} records nothing", "torch, torch_memory or nsys"
        yield Verdict("VRL248", (steps, tool), message, f"set {tool} to {advice}", "warning")
    elif run.text(tool) in _TOOLS_OF_STEPS:
        message = f"{run.shown(tool)} without {steps} records nothing"
        yield Verdict("VRL248", (tool, steps), message, f"set {steps} to steps such as [1,2]", "note")


@rule(versions=">=0.9.1", engines=("megatron",))
def replayed_routes_are_recorded(run: VerlRun) -> Iterator[Verdict]:
    """VRL249: routes of experts are to be replayed from a pass that is skipped.

    Why: router_replay R2 records the routes while old log-probabilities are recomputed; bypass_mode takes those of the
        rollout and skips that pass. verl refuses the pair.
    Example: actor_rollout_ref.actor.megatron.router_replay.mode=R2 algorithm.rollout_correction.bypass_mode=True
    Instead: algorithm.rollout_correction.bypass_mode=False
    Source: verl/utils/config.py
    """
    replay, bypass = f"{_A}.actor.megatron.router_replay.mode", "algorithm.rollout_correction.bypass_mode"
    if run.text(replay) == "R2" and run.flag(bypass):
        message = f"{run.shown(replay)} records routes in a pass that {run.shown(bypass)} skips"
        advice = f"set {run.name(bypass)}=False, or {run.name(replay)}=R3, which takes the rollout's routes"
        yield Verdict("VRL249", (bypass, replay), message, advice)


RULES: tuple[VerlRule, ...] = (
    separate_rollout_has_gpus,
    separate_batch_is_whole_updates,
    fully_async_has_its_settings,
    one_step_off_has_its_settings,
    weights_reach_the_engines,
    prompts_divide_over_agents,
    cache_is_freed,
    validation_alone_runs,
    profiler_has_a_tool,
    replayed_routes_are_recorded,
)
