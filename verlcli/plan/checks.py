"""The last look before a plan is dispatched: a plan may be for another machine, a run may not."""

from __future__ import annotations

from verlcli.errors import DoesNotFitError, MissingDependencyError
from verlcli.plan.machine import Machine
from verlcli.plan.types import Plan


def require_devices(plan: Plan, machine: Machine) -> None:
    """Check that `machine` has the devices of `plan`.

    Raises:
        MissingDependencyError: CUDA is needed and there is no usable GPU, or torch is a CPU build.
        DoesNotFitError: there are GPUs, but not all that the plan names.
    """
    named = {d for role in plan.placement for d in role.devices if d != "cpu"}
    if not named:
        return
    if not machine.gpus:
        raise MissingDependencyError(
            f"the plan needs {_listed(named)} and this machine has no NVIDIA GPU that the driver shows",
            where="distributed.device",
            fix="set distributed.device: cpu (and remove device maps and gpus_per_node), or run where a GPU is",
        )
    if not machine.torch_cuda:
        raise MissingDependencyError(
            f"the plan needs {_listed(named)} and the installed torch is a CPU build",
            where="distributed.device",
            fix="pip install --force-reinstall torch (its default Linux build has CUDA)",
        )
    absent = {d for d in named if int(d.removeprefix("cuda:")) >= len(machine.gpus)}
    if absent:
        count = len(machine.gpus)
        raise DoesNotFitError(
            f"the plan needs {_listed(absent)} and this machine has {count} GPU{'s' if count > 1 else ''}",
            where="distributed.gpus_per_node",
            fix=f"set distributed.gpus_per_node: {count} and keep device maps below cuda:{count}",
        )


def require_local(plan: Plan) -> None:
    """Raise DoesNotFitError when `plan` is more than the local backend's one process on one device."""
    models = {role.devices for role in plan.placement if role.role != "reward"}
    if plan.batch.ranks == 1 and len(models) == 1:
        return
    devices = {d for devices in models for d in devices}
    raise DoesNotFitError(
        f"the plan has {plan.batch.ranks} rank{'s' if plan.batch.ranks > 1 else ''} on {_listed(devices)};"
        " the local backend trains in one process on one device",
        where="backend",
        fix="set distributed.nnodes: 1 and distributed.gpus_per_node: null, and remove the device maps"
        " (or name one device in all of them)",
    )


def _listed(devices: set[str]) -> str:
    return ", ".join(sorted(devices, key=lambda d: (len(d), d)))
