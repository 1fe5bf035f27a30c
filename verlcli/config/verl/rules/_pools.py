"""GPUs over which rollout engines are laid: the trainer's, their own, or both."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.config.verl.rules._reading import APART, GPUS, NODES, ROLLOUT, at_least, has_own_rollout_gpus, size
from verlcli.config.verl.run import VerlRun


@dataclass(frozen=True, slots=True)
class Pool:
    """GPUs over which rollout engines are laid, with the keys that count its nodes and the GPUs of a node."""

    nodes_key: str
    gpus_key: str
    nodes: int
    per_node: int

    @property
    def gpus(self) -> int:
        """GPUs of the pool."""
        return self.nodes * self.per_node

    @property
    def is_trainers(self) -> bool:
        """Whether the trainer has these GPUs, too."""
        return self.gpus_key == GPUS


def rollout_pools(run: VerlRun) -> tuple[Pool, ...]:
    """Pools of the rollout engines: their own first, the trainer's unless all of them run elsewhere.

    In separate_async colocated engines run on the trainer's GPUs as well; since 0.9.1 hybrid_engine=False leaves them
    out (verl/trainer/ppo/v1/trainer_separate_async.py).

    Raises:
        NotKnown: as `size`.
    """
    own = has_own_rollout_gpus(run)
    leaves_trainer = own and (
        run.tree.entry in APART or (at_least(run, "0.9.1") and run.get("actor_rollout_ref.hybrid_engine") is False)
    )
    root = "rollout" if run.tree.entry in APART else ROLLOUT
    keys = [(f"{root}.nnodes", f"{root}.n_gpus_per_node")] if own else []
    keys += [] if leaves_trainer else [(NODES, GPUS)]
    return tuple(Pool(nodes, gpus, size(run, nodes), size(run, gpus)) for nodes, gpus in keys)
