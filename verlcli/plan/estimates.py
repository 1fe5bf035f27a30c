"""What a planned step takes of memory and time, where model and GPU are known."""

from __future__ import annotations

from dataclasses import replace

from verlcli.config.types import Config
from verlcli.facts import ModelShape, model_shape, shape_from_config
from verlcli.plan.machine import Machine
from verlcli.plan.memory import DeviceMemory, plan_memory
from verlcli.plan.memory.report import verdict
from verlcli.plan.memory.rollout import MOST_ROWS
from verlcli.plan.time import plan_time
from verlcli.plan.types import Note, Plan


def with_estimates(plan: Plan, config: Config, machine: Machine) -> Plan:
    """`plan` with its estimates, and with the fact that some of them lack. Of another backend nothing is estimated."""
    if plan.backend != "local":
        return plan
    shapes = role_shapes(config, plan)
    if "actor" not in shapes:
        return replace(
            plan, missing=f"memory and time: not estimated, no config.json of {config.model.path} is known here"
        )
    gpu = machine.gpus[0].model if machine.gpus and plan.device == "cuda" else None
    memory = plan_memory(config, plan, shapes, gpu=gpu)
    lacks = None if memory else "memory: not estimated, a model has layers whose sizes are not known"
    if gpu is None:
        unknown = "time: not estimated, name the GPU by --cluster, such as 1xH100" if plan.device == "cuda" else None
        return replace(plan, memory=memory, missing=lacks or unknown)
    time = plan_time(config, plan, shapes, gpu, rows=_rows(config, plan, shapes["actor"], memory))
    return replace(plan, memory=memory, time=time, missing=lacks, notes=(*plan.notes, *_too_much(memory)))


def _rows(config: Config, plan: Plan, shape: ModelShape, memory: DeviceMemory | None) -> int:
    """Sequences that generation decodes at once: as many as are wanted, or as the planned cache takes."""
    rows = min(plan.batch.sequences_per_rank, config.rollout.batch_size or MOST_ROWS, MOST_ROWS)
    parts = () if memory is None else next(each for each in memory.phases if each.phase == "rollout").parts
    cache = sum(part.bytes for part in parts if part.component == "kv cache")
    each = shape.kv_numbers_per_token * 2 * (config.data.max_prompt_length + config.data.max_response_length)
    return max(1, min(rows, cache // each)) if cache else rows


def _too_much(memory: DeviceMemory | None) -> tuple[Note, ...]:
    if memory is None or memory.fits is not False:
        return ()
    keys = [key for part in sorted(memory.worst.parts, key=lambda part: -part.bytes) for key in part.shrunk_by]
    return (Note("warning", keys[0] if keys else "model.path", f"memory {verdict(memory)} (an estimate)"),)


def role_shapes(config: Config, plan: Plan) -> dict[str, ModelShape]:
    """Shapes of the models that roles have, as far as anything here knows them."""
    paths = {
        "actor": config.model.path,
        "critic": config.critic.path or config.model.path,
        "reference": config.reference.path or config.model.path,
        "reward_model": config.reward_model.path,
    }
    found = {role: model_shape(path) for role, path in paths.items() if path and plan.role(role) is not None}
    shapes = {role: shape for role, shape in found.items() if shape is not None}
    if config.model.path is None and config.model.shape is not None:
        shapes["actor"] = shape_from_config(config.model.shape, "model.shape")
    return shapes
