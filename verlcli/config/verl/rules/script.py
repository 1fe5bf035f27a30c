"""Rules about the script around a launch: what Slurm, CUDA_VISIBLE_DEVICES and `ray start` give, what reaches Ray."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.run import VerlRun
from verlcli.config.verl.settings import UNKNOWN, CommandLine

_NODES, _GPUS = "trainer.nnodes", "trainer.n_gpus_per_node"
_FOLDER, _SAVE = "trainer.default_local_dir", "trainer.save_freq"
_ADDRESS, _CPUS = "ray_kwargs.ray_init.address", "ray_kwargs.ray_init.num_cpus"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
# Directives of which the first that is a number counts, the key that has to fit it, and what both count.
_DIRECTIVES = (
    (("nodes",), _NODES, "nodes"),
    (("gpus-per-node", "gres", "gpus-per-task"), _GPUS, "GPUs a node"),
)
_FOR_WORKERS = ("VLLM_", "NCCL_", "PYTORCH_", "HF_", "SGLANG_")


@rule()
def job_has_the_nodes(run: VerlRun) -> Iterator[Verdict]:
    """VRL320: the Slurm job has other nodes or GPUs than the launch asks for.

    Why: Ray sees what Slurm gave to the job. With too few GPUs verl stops once Ray is up ("Total available GPUs ... is
        less than total desired GPUs"); GPUs beyond what trainer.nnodes and trainer.n_gpus_per_node say stay idle, and
        are paid for.
    Example: #SBATCH --nodes=4, and trainer.nnodes=2
    Instead: the same number in both places
    Source: verl/trainer/ppo/ray_trainer.py; examples/tutorial/slurm
    """
    for names, key, what in _DIRECTIVES:
        told = ((name, given) for name in names if (given := _directive(run, name)) is not None)
        for name, given in islice(told, 1):
            yield from _compared(run, name, given, key, run.integer(key), what)


def _directive(run: VerlRun, name: str) -> int | None:
    """A number of a directive: `2`, `gpu:8`, `gpu:a100:8`; None when it is no single number."""
    found = run.directives.get(name)
    if found is None or found.value is None or (name == "gres" and not found.value.startswith("gpu")):
        return None
    last = found.value.rpartition(":")[2]
    return int(last) if last.isdigit() else None


def _compared(run: VerlRun, name: str, given: int, key: str, asked: int, what: str) -> Iterator[Verdict]:
    if given == asked:
        return
    keys = (key, f"#SBATCH --{name}")
    message = f"the job gets {given} {what} (#SBATCH --{name}), and {run.shown(key)}"
    if asked > given:
        message = f"{message}: Ray does not have them, and verl stops"
        yield Verdict("VRL320", keys, message, f"set {run.name(key)}={given}")
    else:
        advice = f"set {run.name(key)}={given}, or ask Slurm for {asked}"
        yield Verdict("VRL320", keys, f"{message}: the rest stays idle", advice, "warning")


@rule()
def visible_gpus_suffice(run: VerlRun) -> Iterator[Verdict]:
    """VRL321: CUDA_VISIBLE_DEVICES shows fewer GPUs than the launch asks for.

    Why: Ray counts the GPUs that the variable lists. With fewer than trainer.n_gpus_per_node verl stops with "Total
        available GPUs ... is less than total desired GPUs", or waits for a node that has enough.
    Example: export CUDA_VISIBLE_DEVICES=0,1 and trainer.n_gpus_per_node=8
    Instead: trainer.n_gpus_per_node=2, or list as many GPUs
    Source: verl/trainer/ppo/ray_trainer.py; Ray's accelerator docs
    """
    visible = run.environment.get(_VISIBLE)
    if visible is None or visible.value is None or _cluster_is_elsewhere(run):
        return
    count = len([name for name in visible.value.split(",") if name.strip()])
    asked = run.integer(_GPUS)
    if count < asked:
        message = f"{_VISIBLE}={visible.value} shows {count} of the {asked} GPUs that {run.shown(_GPUS)} asks for"
        advice = f"set {run.name(_GPUS)}={count}, or list {asked} GPUs" if count else "list the GPUs to use"
        yield Verdict("VRL321", (_GPUS, f"${_VISIBLE}"), message, advice)


def _cluster_is_elsewhere(run: VerlRun) -> bool:
    """Whether the launch joins a Ray cluster that did not get this script's variables."""
    submitted = run.script is not None and run.script.submitted
    return submitted or run.is_set(_ADDRESS) or "RAY_ADDRESS" in run.environment


@rule()
def ray_start_has_the_gpus(run: VerlRun) -> Iterator[Verdict]:
    """VRL322: `ray start --num-gpus` gives Ray fewer GPUs than the launch asks for on a node.

    Why: verl reserves trainer.n_gpus_per_node GPUs on one node. Ray counts only what `--num-gpus` says, so that the
        placement group is never ready and the launch hangs without a message.
    Example: ray start --head --num-gpus=4, and trainer.n_gpus_per_node=8
    Instead: the same number in both places
    Source: verl/single_controller/ray/base.py
    """
    for command in _ray_starts(run):
        given = command.option("--num-gpus")
        if given is None or not given.isdigit():
            continue
        asked = run.integer(_GPUS)
        if int(given) < asked:
            message = (
                f"line {command.place.line} starts Ray with --num-gpus={given}, and {run.shown(_GPUS)}: it never fits"
            )
            yield Verdict("VRL322", (_GPUS,), message, f"write --num-gpus={asked}, or {run.name(_GPUS)}={given}")
            return


def _ray_starts(run: VerlRun) -> list[CommandLine]:
    commands = run.script.commands if run.script else ()
    return [command for command in commands if "ray start" in " ".join(filter(None, command.words))]


@rule()
def ray_runs_on_all_nodes(run: VerlRun) -> Iterator[Verdict]:
    """VRL323: a launch over several nodes, and nothing in the script starts Ray on them.

    Why: verl joins the Ray cluster that runs on its node, or starts one of that node alone. In the second case it stops
        with "Total available GPUs 8.0 is less than total desired GPUs 16".
    Example: trainer.nnodes=2, and no `ray start` in the script
    Instead: `ray start --head` on one node and `ray start --address=HEAD:6379` on the others before the launch
    Source: docs/start/multinode.rst
    """
    nodes = run.setting(_NODES)
    if run.source != "script" or nodes is None or nodes.default or _ray_starts(run) or _cluster_is_elsewhere(run):
        return  # whoever starts the script with NNODES=2 knows of the nodes
    if nodes.value is UNKNOWN or run.integer(_NODES) < 2:
        return
    message = f"{run.shown(_NODES)}, and this script does not start Ray: it has to run on all nodes already"
    yield Verdict("VRL323", (_NODES,), message, "see `ray status` on this node before the launch", "note")


@rule()
def num_cpus_is_for_a_new_ray(run: VerlRun) -> Iterator[Verdict]:
    """VRL327: ray_init.num_cpus is set, and the launch joins a Ray cluster that runs already.

    Why: ray.init() refuses num_cpus when it connects: "When connecting to an existing cluster, num_cpus and num_gpus
        must not be provided". The launch stops at once.
    Example: `ray start --head` above, and ray_kwargs.ray_init.num_cpus=32
    Instead: leave it out, and write `ray start --num-cpus=32`
    Source: ray.init of Ray 2; verl/trainer/main_ppo.py
    """
    if not run.is_set(_CPUS) or run.get(_CPUS) is None:
        return
    joined = run.shown(_ADDRESS) if run.is_set(_ADDRESS) else "`ray start` above" if _ray_starts(run) else ""
    if joined:
        message = f"{run.shown(_CPUS)} with {joined}: Ray refuses it when it joins a cluster that runs already"
        yield Verdict("VRL327", (_CPUS,), message, f"remove it, or write ray start --num-cpus={run.get(_CPUS)}")


@rule()
def variables_reach_the_workers(run: VerlRun) -> Iterator[Verdict]:
    """VRL324: a variable is exported on the machine that submits a Ray job, where no worker sees it.

    Why: `ray job submit` starts the launch on the cluster, with the variables of its runtime environment alone. What
        the script exports stays where the script runs: vLLM, NCCL and the trackers go on with their defaults.
    Example: export NCCL_IB_HCA=mlx5, and `ray job submit -- python3 -m verl.trainer.main_ppo ...`
    Instead: env_vars in the file of --runtime-env, or +ray_kwargs.ray_init.runtime_env.env_vars.NCCL_IB_HCA=mlx5
    Source: Ray's docs on runtime environments; verl/trainer/runtime_env.yaml
    """
    if run.script is None or not run.script.submitted or run.script.runtime_env is None:
        return
    carried = run.script.runtime_env
    handed = run.under("ray_kwargs.ray_init.runtime_env.env_vars")
    lost = [
        name
        for name in run.environment
        if (name.startswith(_FOR_WORKERS) or name == "WANDB_API_KEY") and name not in carried and name not in handed
    ]
    if lost:
        names = ", ".join(lost[:6]) + (" and more" if len(lost) > 6 else "")
        message = f"{names}: exported here, but the job runs on the cluster, where nobody sees it"
        advice = f"add +ray_kwargs.ray_init.runtime_env.env_vars.{lost[0]}=..., or put it into the --runtime-env"
        yield Verdict("VRL324", tuple(f"${name}" for name in lost), message, advice, "warning")


@rule()
def checkpoints_share_a_folder(run: VerlRun) -> Iterator[Verdict]:
    """VRL326: checkpoints of several nodes go to a relative folder.

    Why: each worker writes its shards below its own working directory. On several nodes these are different disks,
        unless they share the file system: no node then has a whole checkpoint, and a restart does not find its shards.
    Example: trainer.nnodes=2 trainer.save_freq=20, and nothing about trainer.default_local_dir
    Instead: trainer.default_local_dir=/shared/checkpoints/my-run
    Source: verl/utils/fs.py
    """
    if run.integer(_SAVE) < 1 or run.integer(_NODES) < 2:
        return
    folder = run.text(_FOLDER) or ""
    if not re.match(r"[/~$]|[a-z0-9]+://", folder):
        message = f"{run.shown(_FOLDER)} is relative: each of the nodes writes its part below its own working directory"
        yield Verdict("VRL326", (_FOLDER, _NODES), message, "give it an absolute path that all nodes share", "note")


RULES: tuple[VerlRule, ...] = (
    job_has_the_nodes,
    visible_gpus_suffice,
    ray_start_has_the_gpus,
    ray_runs_on_all_nodes,
    num_cpus_is_for_a_new_ray,
    variables_reach_the_workers,
    checkpoints_share_a_folder,
)
