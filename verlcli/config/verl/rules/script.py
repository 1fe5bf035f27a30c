"""Rules about the script around a launch: what Slurm, CUDA_VISIBLE_DEVICES and `ray start` give, what reaches Ray."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules import slurm
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import GPUS, NODES, pool_keys, size
from verlcli.config.verl.run import VerlRun
from verlcli.config.verl.settings import UNKNOWN, CommandLine, Variable

_FOLDER, _SAVE = "trainer.default_local_dir", "trainer.save_freq"
_ADDRESS, _CPUS = "ray_kwargs.ray_init.address", "ray_kwargs.ray_init.num_cpus"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_DEVICE = "trainer.device"
_NO_GPU = ("NoDevFiles", "none", "void")
_NUM_GPUS = re.compile(r"--num-gpus[= ](\d{1,9})(?!\S)", re.ASCII)
_REMOTE = ("ssh", "srun", "pdsh", "mpirun", "docker", "apptainer", "singularity")
_FOR_WORKERS = ("VLLM_", "NCCL_", "PYTORCH_", "HF_", "SGLANG_")


@rule()
def visible_gpus_suffice(run: VerlRun) -> Iterator[Verdict]:
    """VRL321: CUDA_VISIBLE_DEVICES shows fewer GPUs than the launch asks for.

    Why: Ray counts the GPUs that the variable lists; -1 and an empty value hide all of them. With fewer than
        trainer.n_gpus_per_node verl stops with "Total available GPUs ... is less than total desired GPUs", or waits for
        a node that has enough.
    Example: export CUDA_VISIBLE_DEVICES=0,1 and trainer.n_gpus_per_node=8
    Instead: trainer.n_gpus_per_node=2, or list as many GPUs
    Source: verl/trainer/ppo/ray_trainer.py; Ray's accelerator docs
    """
    visible = run.environment.get(_VISIBLE)
    if visible is None or visible.value is None or not _counts_here(run, visible):
        return
    count = _shown_gpus(visible.value)
    keys, asked = _asked_on_one_node(run)
    if count >= asked:
        return
    wanted = " and ".join(run.shown(key) for key in keys)
    if count:
        verb = "asks for" if len(keys) == 1 else "ask for"
        message = f"{_VISIBLE}={visible.value} shows {count} of the {asked} GPUs that {wanted} {verb}"
        advice = f"set {run.name(GPUS)}={count}, or list {asked} GPUs" if keys == (GPUS,) else f"list {asked} GPUs"
    else:
        said = f"{_VISIBLE}={visible.value}" if visible.value.strip() else f"{_VISIBLE} is empty, which"
        message = f"{said} hides every GPU from the launch, and {wanted}"
        advice = "list the GPUs to use, or leave the variable out"
    yield Verdict("VRL321", (*keys, f"${_VISIBLE}"), message, advice)


def _counts_here(run: VerlRun, visible: Variable) -> bool:
    """Whether the Ray of this launch is one that got the variable."""
    before = any(command.place.line < visible.place.line for command in _ray_starts(run))
    device = run.get(_DEVICE) if run.has(_DEVICE) else None
    return not (before or _cluster_is_elsewhere(run)) and device in (None, "cuda")


def _shown_gpus(value: str) -> int:
    """GPUs that a list shows: CUDA stops reading at the first entry that names none, such as -1."""
    names = [name.strip() for name in value.split(",") if name.strip()]
    return len(list(takewhile(lambda name: not name.startswith("-") and name not in _NO_GPU, names)))


def _pools(run: VerlRun) -> list[tuple[str, int, int]]:
    """Each group of GPUs: its key of the GPUs a node, its nodes, its GPUs a node."""
    return [(gpus, size(run, nodes), size(run, gpus)) for nodes, gpus in pool_keys(run)]


def _asked_on_one_node(run: VerlRun) -> tuple[tuple[str, ...], int]:
    """Keys and sum of the GPUs that one node has to have: of all groups where nothing starts Ray on a second node."""
    if len(list(pool_keys(run))) == 1:
        return (GPUS,), run.integer(GPUS)  # whatever number of nodes there is
    pools = _pools(run)
    if all(nodes == 1 for _, nodes, _ in pools) and not _ray_starts(run):
        return tuple(key for key, _, _ in pools), sum(gpus for _, _, gpus in pools)
    key, _, most = max(pools, key=lambda pool: pool[2])
    return (key,), most


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
    starts = _ray_starts(run)
    given = [number for command in starts if (number := _num_gpus(command)) is not None]
    if not given or len(given) < len(starts):
        return  # one of them may have enough
    most = max(given)
    said = f"line {starts[given.index(most)].place.line} starts Ray with --num-gpus={most}"
    pools = [(GPUS, 0, run.integer(GPUS))] if len(list(pool_keys(run))) == 1 else _pools(run)
    key, _, asked = max(pools, key=lambda pool: pool[2])
    total = sum(gpus for _, _, gpus in pools)
    if most == 0 < asked:
        message = f"{said}, and {run.shown(key)}: no node with GPUs joins in this script"
        yield Verdict("VRL322", (key,), message, f"start Ray with --num-gpus={asked} on the GPU nodes", "warning")
    elif most < asked:
        message = f"{said}, and {run.shown(key)}: it never fits"
        yield Verdict("VRL322", (key,), message, f"write --num-gpus={asked}, or {run.name(key)}={most}")
    elif len(starts) == 1 and most < total and all(nodes == 1 for _, nodes, _ in pools):
        keys = tuple(key for key, _, _ in pools)
        message = f"{said}, and {' and '.join(run.shown(key) for key in keys)} ask for {total} GPUs together"
        yield Verdict("VRL322", keys, message, f"write --num-gpus={total}, or start Ray on more nodes", "warning")


def _num_gpus(command: CommandLine) -> int | None:
    """GPUs that `ray start` announces; None when that is not known, or left to Ray."""
    match = _NUM_GPUS.search(" ".join("?" if word is None else word for word in command.words))
    return int(match[1]) if match else None


def _ray_starts(run: VerlRun) -> list[CommandLine]:
    """The commands of the script that start Ray, on whatever node."""
    return [command for command in (run.script.commands if run.script else ()) if _starts_ray(command)]


def _starts_ray(command: CommandLine) -> bool:
    """Whether it says `ray start`; ssh and the like are noted for nothing else, so that an unknown word of it may."""
    name = (command.words[0] or "").rpartition("/")[2] if command.words else ""
    return "ray start" in " ".join(filter(None, command.words)) or (name in _REMOTE and None in command.words)


@rule()
def ray_runs_on_all_nodes(run: VerlRun) -> Iterator[Verdict]:
    """VRL323: a launch over several nodes, and nothing in the script starts Ray on them.

    Why: verl joins the Ray cluster that runs on its node, or starts one of that node alone. In the second case it stops
        with "Total available GPUs 8.0 is less than total desired GPUs 16".
    Example: trainer.nnodes=2, and no `ray start` in the script
    Instead: `ray start --head` on one node and `ray start --address=HEAD:6379` on the others before the launch
    Source: docs/start/multinode.rst
    """
    nodes = run.setting(NODES)
    if run.source != "script" or nodes is None or nodes.default or _ray_starts(run) or _cluster_is_elsewhere(run):
        return  # whoever starts the script with NNODES=2 knows of the nodes
    if nodes.value is UNKNOWN or run.integer(NODES) < 2:
        return
    message = f"{run.shown(NODES)}, and this script does not start Ray: it has to run on all nodes already"
    yield Verdict("VRL323", (NODES,), message, "see `ray status` on this node before the launch", "note")


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
    if run.integer(_SAVE) < 1 or not _spans_nodes(run):
        return
    folder = run.text(_FOLDER) or ""
    if not re.match(r"[/~$]|[a-z0-9]+://", folder):
        message = f"{run.shown(_FOLDER)} is relative: each of the nodes writes its part below its own working directory"
        keys = (_FOLDER, *(nodes for nodes, _ in pool_keys(run)))
        yield Verdict("VRL326", keys, message, "give it an absolute path that all nodes share", "note")


def _spans_nodes(run: VerlRun) -> bool:
    """Whether workers run on several nodes: one group of GPUs does, or several do not fit on one."""
    if len(list(pool_keys(run))) == 1:
        return run.integer(NODES) > 1
    pools, job = _pools(run), slurm.job_nodes(run)
    on_each = run.context.cluster.gpus_per_node if run.context.cluster else None
    if any(nodes > 1 for _, nodes, _ in pools) or (job and job.number > 1):
        return True
    return on_each is not None and sum(gpus for _, _, gpus in pools) > on_each


RULES: tuple[VerlRule, ...] = (
    *slurm.RULES,
    visible_gpus_suffice,
    ray_start_has_the_gpus,
    ray_runs_on_all_nodes,
    num_cpus_is_for_a_new_ray,
    variables_reach_the_workers,
    checkpoints_share_a_folder,
)
