"""From a `Config` and a `Machine` to a `Plan`: numbers and choices, before anything is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from verlcli.config.layers import Origin
from verlcli.config.types import Config
from verlcli.plan.batch import plan_batch
from verlcli.plan.checks import require_devices, require_local
from verlcli.plan.devices import actor_devices, check_device_ids, choose_device, count_ranks, gpus_per_node
from verlcli.plan.estimates import with_estimates
from verlcli.plan.ineffective import ineffective_keys
from verlcli.plan.machine import Gpu, Machine, machine_of, this_machine
from verlcli.plan.placement import place_roles
from verlcli.plan.run_dir import run_dir
from verlcli.plan.types import BatchPlan, Device, Note, Plan, RolePlan

__all__ = [
    "BatchPlan",
    "Device",
    "Gpu",
    "Machine",
    "Note",
    "Plan",
    "RolePlan",
    "machine_of",
    "make_plan",
    "require_devices",
    "require_local",
    "this_machine",
]


def make_plan(
    config: Config,
    *,
    name: str,
    machine: Machine,
    argv: Sequence[str],
    origins: Mapping[str, Sequence[Origin]],
) -> Plan:
    """Work out the plan of `config` on `machine`; of models it reads `config.json` at most.

    Args:
        name: of the run; its default directory is `runs/NAME`.
        argv: what follows `verl train` on the command line that starts it.
        origins: the layers of each key, lowest first, to warn of keys that were set and have no effect.

    Raises:
        ConfigError: choices that contradict each other or an engine that the backend does not have.
        DoesNotFitError: batch sizes or devices that do not work out.
    """
    device, device_notes = choose_device(config, machine)
    check_device_ids(config, machine)
    devices = actor_devices(config, device, machine)
    ranks, line = count_ranks(config, devices)
    batch = plan_batch(config, ranks)
    if line:
        batch = replace(batch, equation=(line, *batch.equation))
    placement, role_notes = place_roles(config, device, devices, machine)
    notes = (
        *device_notes,
        *_machine_notes(config, device, devices, machine),
        *role_notes,
        *_reward_notes(config, origins),
        *ineffective_keys(config, device, _engine_of(placement, "rollout"), origins),
    )
    plan = Plan(
        name=name,
        backend=config.backend,
        device=device,
        batch=batch,
        placement=placement,
        notes=tuple(dict.fromkeys(notes)),  # roles that share a key share its note
        total_steps=config.trainer.total_steps,
        run_dir=run_dir(config, name),
        command=shlex.join(["verl", "train", *argv]),
    )
    return with_estimates(plan, config, machine)


def _engine_of(placement: Sequence[RolePlan], role: str) -> str:
    return next(each.engine for each in placement if each.role == role)


def _reward_notes(config: Config, origins: Mapping[str, Sequence[Origin]]) -> tuple[Note, ...]:
    """A default reward function beside a reward model is added to its score, which the user may not expect."""
    history = origins.get("reward.function", ())
    if config.reward_model.path is None or not config.reward.function or (history and history[-1].kind != "default"):
        return ()
    names = " + ".join(config.reward.function)
    text = f"not set, so {names} (the default) is added to the reward model's score; set [] for the model alone"
    return (Note("warning", "reward.function", text),)


def _machine_notes(config: Config, device: Device, devices: tuple[str, ...], machine: Machine) -> tuple[Note, ...]:
    """What the user may not expect of the devices: GPUs left idle, a node's size that was guessed."""
    key = "distributed.gpus_per_node"
    if device == "cpu" or config.distributed.gpus_per_node is not None:
        return ()
    if config.backend == "local" and len(machine.gpus) > len(devices):
        idle = len(machine.gpus) - len(devices)
        return (Note("info", key, f"{idle} more GPU{'s' if idle > 1 else ''} here: the local backend trains on one"),)
    if gpus_per_node(config, machine) is None and config.actor.device_map is None:
        return (Note("warning", key, "not set, and no GPU here to count: planned with 1 a node"),)
    return ()
