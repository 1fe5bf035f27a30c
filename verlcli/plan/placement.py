"""Roles on devices: which roles the run has, and each one's devices, engine and dtype with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from verlcli.config.types import Config, CriticConfig, DType, ReferenceConfig, RewardModelConfig
from verlcli.plan.devices import device_maps
from verlcli.plan.dtypes import Choice, choose_dtype
from verlcli.plan.engines import Engine, forward_engine, rollout_engine, training_engine
from verlcli.plan.machine import Machine
from verlcli.plan.types import Device, Note, RolePlan

_Placed = tuple[RolePlan, tuple[Note, ...]]


@dataclass(frozen=True, slots=True)
class _Site:
    """What every role is placed against."""

    config: Config
    device: Device
    machine: Machine
    maps: Mapping[str, tuple[str, ...]]


def place_roles(
    config: Config, device: Device, actor_devices: tuple[str, ...], machine: Machine
) -> tuple[tuple[RolePlan, ...], tuple[Note, ...]]:
    """Every role of the run in the order in which a step meets it, and the notes on the choices.

    Raises:
        ConfigError: an engine that the backend does not have.
    """
    site = _Site(config, device, machine, device_maps(config))
    actor, actor_notes = _actor(site, actor_devices)
    placed: list[_Placed] = [(actor, actor_notes), _rollout(config, actor, device)]
    if config.reward.function:
        placed.append((RolePlan("reward", ("cpu",), "python", "fp32", ", ".join(config.reward.function)), ()))
    if config.reward_model.path:
        placed.append(_reward_model(site, actor))
    if config.algorithm.kl_coef > 0:
        placed.append(_reference(site, actor))
    if config.algorithm.name == "ppo":
        placed.append(_critic(site, actor))
    return tuple(role for role, _ in placed), tuple(note for _, notes in placed for note in notes)


def _actor(site: _Site, devices: tuple[str, ...]) -> _Placed:
    config = site.config
    engine = training_engine(config.actor.training_engine, "actor.training_engine", config.backend)
    asked, key = _dtype_key(config, config.actor.dtype, "actor")
    dtype = choose_dtype(asked, key, site.device, site.machine)
    return _placed(site, "actor", devices, engine, dtype)


def _rollout(config: Config, actor: RolePlan, device: Device) -> _Placed:
    own = config.actor.rollout_engine
    asked, key = (config.rollout.name, "rollout.name") if own is None else (own, "actor.rollout_engine")
    engine = rollout_engine(asked, key, config.backend, device)
    reason = f"{engine.reason}; the actor's weights and dtype"
    return RolePlan("rollout", actor.devices, engine.name, actor.dtype, reason), engine.notes


def _reward_model(site: _Site, actor: RolePlan) -> _Placed:
    role = site.config.reward_model
    engine = forward_engine(role.engine, "reward_model.engine", site.config.backend)
    return _beside(site, "reward_model", role, engine, actor)


def _reference(site: _Site, actor: RolePlan) -> _Placed:
    config, role = site.config, site.config.reference
    if config.model.lora_rank > 0 and role.path is None:
        reason = "the actor with its adapter off: no second copy"
        return RolePlan("reference", actor.devices, actor.engine, actor.dtype, reason), ()
    engine = forward_engine(role.engine, "reference.engine", config.backend)
    if role.dtype is None and "reference" not in site.maps:
        # The KL divergence compares like with like.
        return _placed(site, "reference", actor.devices, engine, Choice(actor.dtype, "that of the actor"))
    return _beside(site, "reference", role, engine, actor)


def _critic(site: _Site, actor: RolePlan) -> _Placed:
    role = site.config.critic
    engine = training_engine(role.training_engine, "critic.training_engine", site.config.backend)
    return _beside(site, "critic", role, engine, actor)


def _beside(
    site: _Site,
    name: str,
    role: CriticConfig | ReferenceConfig | RewardModelConfig,
    engine: Engine,
    actor: RolePlan,
) -> _Placed:
    """A role on the devices it names, else on the actor's."""
    devices = site.maps.get(name, actor.devices)
    device: Device = "cpu" if devices == ("cpu",) else "cuda"
    asked, key = _dtype_key(site.config, role.dtype, name)
    dtype = choose_dtype(asked, key, device, site.machine)
    return _placed(site, name, devices, engine, dtype)


def _placed(site: _Site, name: str, devices: tuple[str, ...], engine: Engine, dtype: Choice) -> _Placed:
    parts = [engine.reason, f"{dtype.dtype}: {dtype.reason}"]
    if name in site.maps:
        parts.append(f"placed by {name}.device_map")
    elif name != "actor":
        parts.append("shares the actor's devices")
    if site.config.distributed.nnodes > 1:
        parts.append(f"on each of {site.config.distributed.nnodes} nodes")
    return RolePlan(name, devices, engine.name, dtype.dtype, "; ".join(parts)), engine.notes + dtype.notes


def _dtype_key(config: Config, own: DType | None, role: str) -> tuple[DType, str]:
    return (config.model.dtype, "model.dtype") if own is None else (own, f"{role}.dtype")
