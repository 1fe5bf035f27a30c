"""What a planned step takes of memory and time, where model and GPU are known."""

from __future__ import annotations

from dataclasses import replace

from verlcli.config.types import Config
from verlcli.errors import VerlCliError
from verlcli.facts import GpuModel, ModelShape, model_shape, shape_from_config
from verlcli.plan.machine import Machine
from verlcli.plan.memory import DeviceMemory, plan_memory
from verlcli.plan.memory.report import verdict
from verlcli.plan.time import plan_time
from verlcli.plan.types import Note, Plan

OLDEST = (8, 0)  # compute capability that packed attention needs


def with_estimates(plan: Plan, config: Config, machine: Machine) -> Plan:
    """`plan` with its estimates, and with the fact that some of them lack. Of another backend nothing is estimated."""
    if plan.backend != "local":
        return plan
    try:
        return _estimated(plan, config, machine)
    except VerlCliError:
        raise
    except Exception as error:  # an odd config.json must not keep a run from starting
        return replace(plan, missing=f"memory and time: not estimated ({type(error).__name__}: {error})")


def _estimated(plan: Plan, config: Config, machine: Machine) -> Plan:
    shapes = role_shapes(config, plan)
    gpu = _gpu(plan, machine)
    if lacks := _lacks(plan, config, machine, shapes):
        return replace(plan, missing=f"memory and time: not estimated, {lacks}")
    memory = plan_memory(config, plan, shapes, gpu=gpu)
    if memory is None:
        return replace(plan, missing="memory and time: not estimated, a model has layers whose sizes are not known")
    plan = replace(plan, memory=memory, notes=(*plan.notes, *_too_much(memory)))
    if plan.device == "cpu":
        return plan
    if gpu is None:
        return replace(plan, missing="time: not estimated, name the GPU by --cluster, such as 1xH100")
    rollout = plan.role("rollout")
    if rollout is not None and rollout.engine != "graph":
        return replace(plan, missing=f"time: not estimated, of generation by {rollout.engine} nothing is known")
    if memory.fits is False:
        return plan
    time = plan_time(config, plan, shapes, gpu, rows=memory.rows)
    return replace(plan, time=time, missing=None if time else "time: not estimated for experts, or in this dtype")


def _lacks(plan: Plan, config: Config, machine: Machine, shapes: dict[str, ModelShape]) -> str | None:
    """Why nothing can be said."""
    actor = shapes.get("actor")
    if plan.batch.ranks > 1:
        return f"the local backend trains on one device, and the plan has {plan.batch.ranks}"
    if actor is None:
        return f"no config.json of {config.model.path} is known here, or it is not one of a language model"
    if plan.device == "cpu":
        return None
    if machine.gpus and machine.gpus[0].compute_capability < OLDEST:
        return "on this card the model trains and generates by slower paths, which are not modelled"
    longest = config.data.max_prompt_length + config.data.max_response_length
    graph = plan.role("rollout")
    if graph is None or graph.engine != "graph":
        return None
    if actor.changing_rope or (actor.window is not None and actor.window < longest):
        return "for this model and these lengths transformers generates (rollout.name: hf): set it to plan with it"
    return None


def _gpu(plan: Plan, machine: Machine) -> GpuModel | None:
    """The actor's card, with the memory that this one has."""
    if plan.device == "cpu" or not machine.gpus:
        return None
    card = machine.gpus[0]
    return None if card.model is None else replace(card.model, memory_gib=card.memory_bytes / 2**30)


def _too_much(memory: DeviceMemory) -> tuple[Note, ...]:
    if memory.fits is not False:
        return ()
    keys = [key for part in sorted(memory.worst.parts, key=lambda part: -part.bytes) for key in part.shrunk_by]
    key = "rollout.gpu_memory_utilization" if memory.refused else (keys[0] if keys else "model.path")
    return (Note("warning", key, f"memory {verdict(memory)} (an estimate)"),)


def role_shapes(config: Config, plan: Plan) -> dict[str, ModelShape]:
    """Shapes of the models that roles have, as far as anything here knows them; the actor's where they name none."""
    own = config.model.path
    if own is not None:
        actor = model_shape(own)
    else:
        actor = None if config.model.shape is None else shape_from_config(config.model.shape, "model.shape")
    paths = {
        "critic": config.critic.path,
        "reference": config.reference.path,
        "reward_model": config.reward_model.path,
    }
    found = {"actor": actor}
    for role, path in paths.items():
        if plan.role(role) is not None:
            found[role] = model_shape(path) if path else (None if role == "reward_model" else actor)
    return {role: shape for role, shape in found.items() if shape is not None}
