"""Nodes and GPUs that the `#SBATCH` lines of a script ask for, and the rule that they are those of the launch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import GPUS, NODES, pool_keys, size
from verlcli.config.verl.run import VerlRun

_COUNT = re.compile(r"[0-9]{1,9}", re.ASCII)
_TYPED = re.compile(r"(?:[\w.-]+:)?([0-9]{1,9})", re.ASCII)
_GPU = re.compile(r"(?:gres[/:])?gpu(?::[A-Za-z_][\w.-]*)?(?::([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Given:
    """A number that a job gets, and the directives that say so."""

    number: int
    names: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The directives as keys of a verdict."""
        return tuple(f"#SBATCH --{name}" for name in self.names)

    @property
    def said(self) -> str:
        """The directives for a sentence: `#SBATCH --ntasks-per-node, --gpus-per-task`."""
        return f"#SBATCH {', '.join(f'--{name}' for name in self.names)}"


def job_nodes(run: VerlRun) -> Given | None:
    """Nodes of the job; None without `--nodes`, and for a range."""
    return _given(run, "nodes", _count)


def job_gpus_per_node(run: VerlRun) -> Given | None:
    """GPUs that the job gets on each node; None when no directive tells them."""
    told = (_given(run, "gpus-per-node", _typed), _given(run, "gres", _of_gres), _of_tasks(run))
    return next(filter(None, told), None)


def job_gpus(run: VerlRun) -> Given | None:
    """GPUs of the job over all its nodes; None when the directives do not tell them."""
    nodes, on_each = job_nodes(run), job_gpus_per_node(run)
    if nodes and on_each:
        return Given(nodes.number * on_each.number, (*nodes.names, *on_each.names))
    return _given(run, "gpus", _typed)


def _of_tasks(run: VerlRun) -> Given | None:
    """GPUs of a node's tasks; without a number of tasks Slurm starts one a node."""
    of_task = _given(run, "gpus-per-task", _typed)
    if of_task is None or not {"ntasks", "ntasks-per-node"} & run.directives.keys():
        return of_task
    tasks = _given(run, "ntasks-per-node", _count)
    if tasks is None:
        every, nodes = _given(run, "ntasks", _count), job_nodes(run)
        number = nodes.number if nodes else 1 if every and every.number == 1 else 0
        if every is None or number < 1 or every.number % number:
            return None
        tasks = Given(every.number // number, every.names)
    return Given(of_task.number * tasks.number, (*tasks.names, *of_task.names))


def _given(run: VerlRun, name: str, read: Callable[[str], int | None]) -> Given | None:
    found = run.directives.get(name)
    number = read(found.value) if found is not None and found.value else None
    return None if number is None else Given(number, (name,))


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None


def _typed(text: str) -> int | None:
    """`8`, `a100:8`, or several kinds: `a100:4,h100:4`."""
    found = [_TYPED.fullmatch(item) for item in text.split(",")]
    return sum(int(match[1]) for match in found if match) if all(found) else None


def _of_gres(text: str) -> int | None:
    """GPUs among the resources of a node: `gpu`, `gpu:8`, `gpu:a100:8,nvme:1`; None without any."""
    items = [item for item in text.split(",") if re.match(r"(?:gres[/:])?gpu\b", item)]
    found = [_GPU.fullmatch(item) for item in items]
    return sum(int(match[1] or 1) for match in found if match) if items and all(found) else None


@rule()
def job_has_the_nodes(run: VerlRun) -> Iterator[Verdict]:
    """VRL320: the Slurm job has other nodes or GPUs than the launch asks for.

    Why: Ray sees what Slurm gave to the job. With too few GPUs verl stops once Ray is up ("Total available GPUs ... is
        less than total desired GPUs"); GPUs beyond what the launch asks for stay idle, and are paid for. A rollout or a
        reward model with GPUs of its own comes on top of trainer.nnodes and trainer.n_gpus_per_node.
    Example: #SBATCH --nodes=4, and trainer.nnodes=2
    Instead: the same number in both places
    Source: verl/trainer/ppo/ray_trainer.py; examples/tutorial/slurm; man sbatch
    """
    if not run.directives:
        return
    pools = list(pool_keys(run))
    yield from _alone(run) if len(pools) == 1 else _together(run, pools)


def _alone(run: VerlRun) -> Iterator[Verdict]:
    """Each directive against the key that counts the same."""
    missing: NotKnown | None = None
    on_each = job_gpus_per_node(run)
    for given, key, what in ((job_nodes(run), NODES, "node"), (on_each, GPUS, "GPU")):
        try:
            if given:
                yield from _compared(run, given, key, run.integer(key), what)
        except NotKnown as fact:
            missing = missing or fact
    if missing:
        raise missing
    total = job_gpus(run)
    if total and not on_each:
        yield from _in_all(run, total)


def _compared(run: VerlRun, given: Given, key: str, asked: int, what: str) -> Iterator[Verdict]:
    if given.number == asked:
        return
    each = " a node" if what == "GPU" else ""
    message = f"the job gets {counted(given.number, what)}{each} ({given.said}), and {run.shown(key)}"
    told = f"set {run.name(key)}={given.number}"
    yield _verdict((key, *given.keys), message, given.number - asked, told if given.number else "", str(asked))


def _in_all(run: VerlRun, given: Given) -> Iterator[Verdict]:
    """`--gpus`, which counts the GPUs of all nodes."""
    nodes, asked = size(run, NODES), run.gpus
    if given.number == asked:
        return
    wanted = f"{run.shown(NODES)} and {run.shown(GPUS)} ask for {asked}"
    message = f"the job gets {counted(given.number, 'GPU')} ({given.said}), and {wanted}"
    on_each, rest = divmod(given.number, nodes)
    told = f"set {run.name(GPUS)}={on_each}" if on_each and not rest else ""
    yield _verdict((GPUS, NODES, *given.keys), message, given.number - asked, told, str(asked))


def _verdict(keys: tuple[str, ...], message: str, over: int, told: str, asked: str) -> Verdict:
    """The job has too few, or `over` too many; `told` is what to change in the launch, if anything."""
    if over < 0:
        message = f"{message}: Ray does not have them, and verl stops"
        return Verdict("VRL320", keys, message, told or f"ask Slurm for {asked}")
    advice = f"{told}, or ask Slurm for {asked}" if told else f"ask Slurm for {asked}"
    return Verdict("VRL320", keys, f"{message}: the rest stays idle", advice, "warning")


def _together(run: VerlRun, pools: list[tuple[str, str]]) -> Iterator[Verdict]:
    """A launch with several groups of GPUs against the whole job: each has to fit, and so has their sum."""
    sizes = [(size(run, nodes), size(run, gpus)) for nodes, gpus in pools]
    nodes, on_each, total = job_nodes(run), job_gpus_per_node(run), job_gpus(run)
    too_large = False
    for pair, asked in zip(pools, sizes, strict=True):
        for given, key, number, what in zip((nodes, on_each), pair, asked, ("node", "GPU"), strict=True):
            if given and number > given.number:
                too_large = True
                yield from _compared(run, given, key, number, what)
    wanted, most_nodes = sum(count * gpus for count, gpus in sizes), sum(count for count, _ in sizes)
    told = " + ".join(f"{count} × {gpus}" for count, gpus in sizes)
    keys = tuple(key for pair in pools for key in pair)
    same = nodes is not None and on_each is not None and all(gpus == on_each.number for _, gpus in sizes)
    if not too_large and total and total.number != wanted:
        message = (
            f"the job gets {counted(total.number, 'GPU')} ({total.said}), and the launch asks for {told} = {wanted}"
        )
        asked_for = counted(most_nodes, "node") if same else counted(wanted, "GPU")
        yield _verdict((*keys, *total.keys), message, total.number - wanted, "", asked_for)
    elif not (too_large or total) and nodes and nodes.number > most_nodes:
        message = f"the job gets {counted(nodes.number, 'node')} ({nodes.said}), and the launch asks for {most_nodes}"
        yield _verdict((*keys, *nodes.keys), message, nodes.number - most_nodes, "", counted(most_nodes, "node"))


def counted(number: int, what: str) -> str:
    """`1 GPU`, `8 GPUs`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


RULES: tuple[VerlRule, ...] = (job_has_the_nodes,)
