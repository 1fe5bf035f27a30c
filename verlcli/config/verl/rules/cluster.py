"""Rules about what a launch asks of Ray's nodes: CPUs beside each GPU, and enough GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import GPUS, at_least, pool_keys, runs_on_cuda, size
from verlcli.config.verl.rules.slurm import job_gpus_per_node
from verlcli.config.verl.run import VerlRun

_CPUS = "ray_kwargs.ray_init.num_cpus"
_CPUS_PER_GPU = 3


@rule()
def bundles_find_cpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL222: Ray has fewer CPUs than the workers reserve.

    Why: verl reserves 3 CPUs with each GPU (1 before 0.7), for actor, rollout and reward workers. Ray waits for a node
        that has them, without an end and without a message.
    Example: ray_kwargs.ray_init.num_cpus=8 with trainer.n_gpus_per_node=8
    Instead: ray_kwargs.ray_init.num_cpus=32, or leave it out
    Source: verl/single_controller/ray/base.py; verl pull request 6663
    """
    cpus, where, keys = _cpus(run)
    per_gpu = _CPUS_PER_GPU if at_least(run, "0.7") else 1
    gpus = size(run, GPUS)
    if cpus < per_gpu * gpus:
        fewer = good_values(run, "VRL222", GPUS, range(cpus // per_gpu, 0, -1), 1, at=keys[0] if keys else GPUS)
        yield Verdict(
            "VRL222",
            (*keys, GPUS),
            f"workers reserve {per_gpu} CPUs × {gpus} GPUs = {per_gpu * gpus} a node, and {where}: Ray waits forever",
            f"give it {per_gpu * gpus + 2} or more" + (f", or set {run.name(GPUS)}={fewer[0]}" if fewer else ""),
        )


@rule(versions=">=0.7", entries=("main_ppo",))
def processes_find_a_cpu(run: VerlRun) -> Iterator[Verdict]:
    """VRL222: the workers reserve every CPU, and none is left to start anything else.

    Why: servers of the rollout engines, agent loop and reward workers reserve nothing while they run, but Ray starts
        each only where one CPU is free. With 3 CPUs × GPUs and none more it waits without an end.
    Example: ray_kwargs.ray_init.num_cpus=24 with trainer.n_gpus_per_node=8
    Instead: ray_kwargs.ray_init.num_cpus=32, or leave it out
    Source: verl/experimental/agent_loop/agent_loop.py, verl/experimental/reward_loop/reward_loop.py; Ray's docs on
        resources of actors
    """
    cpus, where, keys = _cpus(run)
    reserved = _CPUS_PER_GPU * size(run, GPUS)
    if cpus == reserved:
        message = f"the workers reserve all {reserved} CPUs of a node, and {where}: none is left to start agent loops"
        yield Verdict("VRL222", (*keys, GPUS), message, f"give it {reserved + 2} or more", "warning")


def _cpus(run: VerlRun) -> tuple[int, str, tuple[str, ...]]:
    """CPUs of a node as Ray sees them, how they were said, and the key that says it."""
    for key in (_CPUS, "ray_init.num_cpus"):
        if run.has(key) and run.get(key) is not None:
            return run.integer(key), run.shown(key), (key,)
    asked = run.directives.get("cpus-per-task")
    if asked is not None and asked.value is not None and asked.value.isdecimal():
        tasks = run.directives.get("ntasks-per-node")
        if tasks is None or tasks.value == "1":
            return int(asked.value), f"#SBATCH --cpus-per-task={asked.value}", ()
    per_gpu, on_each = run.directives.get("cpus-per-gpu"), job_gpus_per_node(run)
    if per_gpu is not None and per_gpu.value is not None and per_gpu.value.isdecimal() and on_each:
        of_all = int(per_gpu.value) * on_each.number
        return of_all, f"#SBATCH --cpus-per-gpu={per_gpu.value} gives {of_all}", ()
    if not runs_on_cuda(run):
        raise NotKnown
    cpus = run.cluster.cpus
    if cpus is None:
        raise NotKnown("the CPUs of a node: add cpus=64 to --cluster")
    return cpus, f"the cluster's nodes have {cpus}", ()


@rule()
def cluster_has_the_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL223: the cluster has fewer GPUs than the launch asks for.

    Why: verl compares the sum of all GPUs with what it needs and stops. When only a node is too small, or one is
        missing, it waits without an end for a node with that many free GPUs.
    Example: trainer.n_gpus_per_node left at 8 on a machine with 2 GPUs
    Instead: trainer.n_gpus_per_node=2
    Source: verl/single_controller/ray/base.py; verl issues 2515, 2596, 5954
    """
    if not runs_on_cuda(run):
        return
    cluster = run.cluster
    for nodes_key, gpus_key in pool_keys(run):
        nodes, gpus = size(run, nodes_key), size(run, gpus_key)
        if gpus > cluster.gpus_per_node:
            message = f"{run.shown(gpus_key)}, and the cluster's nodes have {cluster.gpus_per_node}"
            most = _most(run, gpus_key, cluster.gpus_per_node)
            advice = f"set it to {most}" if most else "name a cluster with GPUs"
            yield Verdict("VRL223", (gpus_key, nodes_key), message, advice)
        elif nodes > cluster.nodes:
            message = f"{run.shown(nodes_key)}, and the cluster has {cluster.nodes}"
            yield Verdict("VRL223", (nodes_key, gpus_key), message, f"set it to {_most(run, nodes_key, cluster.nodes)}")
    yield from _sum_fits(run)


def _most(run: VerlRun, key: str, most: int) -> int:
    """The largest number up to `most` with which the launch works; `most` when none does."""
    return next(iter(good_values(run, "VRL223", key, range(most, 0, -1), 1)), most)


def _sum_fits(run: VerlRun) -> Iterator[Verdict]:
    pools = list(pool_keys(run))
    wanted = sum(size(run, nodes) * size(run, gpus) for nodes, gpus in pools)
    if len(pools) > 1 and wanted > run.cluster.total_gpus:
        each = " + ".join(f"{size(run, nodes)} × {size(run, gpus)}" for nodes, gpus in pools)
        keys = tuple(key for pair in reversed(pools) for key in pair)
        message = f"the launch asks for {each} = {wanted} GPUs, and the cluster has {run.cluster.total_gpus}"
        yield Verdict("VRL223", keys, message, "take fewer for one of them, or more nodes")


RULES: tuple[VerlRule, ...] = (bundles_find_cpus, processes_find_a_cpu, cluster_has_the_gpus)
