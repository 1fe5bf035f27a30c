"""Which device kind the run uses, which devices each role may take, and how many ranks train."""

from __future__ import annotations

import re

from verlcli.config.types import Config
from verlcli.errors import ConfigError, DoesNotFitError
from verlcli.plan.machine import Machine
from verlcli.plan.types import Device, Note

_DEVICE_MAP = re.compile(r"cpu|cuda:\d+(,cuda:\d+)*")


def parse_device_map(value: str, key: str) -> tuple[str, ...]:
    """`"cuda:0,cuda:1"` -> `("cuda:0", "cuda:1")`; `"cpu"` -> `("cpu",)`.

    Raises:
        ConfigError: anything else, or a device twice.
    """
    text = re.sub(r"\s", "", value)
    devices = tuple(text.split(","))
    if not _DEVICE_MAP.fullmatch(text):
        raise ConfigError(
            f"{value!r} is not a device map", where=key, fix='write "cuda:0", "cuda:0,cuda:1" and so on, or "cpu"'
        )
    devices = tuple(f"cuda:{int(d[5:])}" if d != "cpu" else d for d in devices)
    twice = sorted({d for d in devices if devices.count(d) > 1})
    if twice:
        raise ConfigError(f"{value!r} names {', '.join(twice)} twice", where=key, fix="name each device once")
    return devices


def device_maps(config: Config) -> dict[str, tuple[str, ...]]:
    """The device maps that the config sets, by role."""
    maps = {
        "actor": config.actor.device_map,
        "critic": config.critic.device_map,
        "reference": config.reference.device_map,
        "reward_model": config.reward_model.device_map,
    }
    return {role: parse_device_map(value, f"{role}.device_map") for role, value in maps.items() if value is not None}


def choose_device(config: Config, machine: Machine) -> tuple[Device, tuple[Note, ...]]:
    """`distributed.device`; `auto` is cuda when the config names GPUs or this machine has some, else cpu.

    Raises:
        ConfigError: a device map contradicts `distributed.device`.
    """
    maps, asked = device_maps(config), config.distributed.device
    on_gpu = [role for role, devices in maps.items() if devices != ("cpu",)]
    if asked == "cpu" and on_gpu:
        raise ConfigError(
            f"{', '.join(maps[on_gpu[0]])} is asked for, but distributed.device is cpu",
            where=f"{on_gpu[0]}.device_map",
            fix="remove the device map, or set distributed.device: cuda",
        )
    if asked == "cuda" and maps.get("actor") == ("cpu",):
        raise ConfigError(
            "the actor is put on the cpu, but distributed.device is cuda",
            where="actor.device_map",
            fix="remove the device map, or set distributed.device: cpu",
        )
    if asked != "auto":
        return asked, ()
    if maps.get("actor") == ("cpu",):
        return "cpu", ()
    if on_gpu or config.distributed.gpus_per_node is not None or config.backend == "verl":
        return "cuda", ()
    if machine.gpus and not machine.torch_cuda:
        message = (
            f"{len(machine.gpus)} x {machine.gpus[0].name} here, but the installed torch is a CPU build; using cpu"
        )
        return "cpu", (Note("warning", "distributed.device", message),)
    return ("cuda" if machine.gpus else "cpu"), ()


def gpus_per_node(config: Config, machine: Machine) -> int | None:
    """GPUs of one node: as configured, else what this machine has; None when neither is known."""
    return config.distributed.gpus_per_node or len(machine.gpus) or None


def check_device_ids(config: Config, machine: Machine) -> None:
    """Raise DoesNotFitError when a device map names a GPU that no node has."""
    available = gpus_per_node(config, machine)
    if available is None:
        return
    for role, devices in device_maps(config).items():
        outside = [d for d in devices if d != "cpu" and int(d[5:]) >= available]
        if outside:
            whose = "distributed.gpus_per_node" if config.distributed.gpus_per_node else "this machine"
            raise DoesNotFitError(
                f"{', '.join(outside)} does not exist: {whose} has {available}, cuda:0 to cuda:{available - 1}",
                where=f"{role}.device_map",
                fix="name devices in that range, or set distributed.gpus_per_node to plan for another machine",
            )


def actor_devices(config: Config, device: Device, machine: Machine) -> tuple[str, ...]:
    """The devices of one node that train the actor."""
    if device == "cpu":
        return ("cpu",)
    asked = device_maps(config).get("actor")
    if asked is not None:
        return asked
    # The local backend trains in one process; it takes more GPUs only when the config asks for them.
    local = config.backend == "local"
    count = config.distributed.gpus_per_node or (1 if local else gpus_per_node(config, machine)) or 1
    return tuple(f"cuda:{i}" for i in range(count))


def count_ranks(config: Config, devices: tuple[str, ...]) -> tuple[int, str]:
    """Data-parallel ranks over all nodes, and the sum written out.

    On the verl backend `actor.ulysses_sequence_parallel_size` GPUs share one sequence and are one rank.

    Raises:
        DoesNotFitError: the sequence-parallel size does not divide the GPUs.
    """
    nodes, each = config.distributed.nnodes, len(devices)
    total = nodes * each
    shared = config.actor.ulysses_sequence_parallel_size if config.backend == "verl" else 1
    if total % shared:
        raise DoesNotFitError(
            f"{total} GPUs over a sequence-parallel size of {shared} leaves {total % shared}",
            where="actor.ulysses_sequence_parallel_size",
            fix=f"set it to one of {', '.join(str(d) for d in range(1, total + 1) if total % d == 0)}",
        )
    if total == 1:
        return 1, ""
    devices_each = f"{each} device{'s' if each > 1 else ''}"
    line = f"{nodes} nodes x {devices_each} = {total} devices" if nodes > 1 else devices_each
    if shared > 1:
        line += f" / {shared} (sequence parallel)"
    return total // shared, f"{line} = {total // shared} ranks"
