"""Pitfalls that depend on where a config runs: cards, cores, roles on the same GPU."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from verlcli.config.context import Context
from verlcli.config.rules._base import ContextRule, Verdict
from verlcli.config.types import Config
from verlcli.config.wording import any_of

_DEVICE = re.compile(r"cuda:(\d+)")
_LARGE_BATCH = 256  # prompts a step, from which one loader process is seldom enough
_LARGE_TEXT = 100 * 2**20  # bytes of JSON that take seconds to parse
_HIGH_SHARE = 0.8  # of a GPU whose trainer stays on it (verl's tuning guide: 0.5 to 0.7)
_STATE_BYTES = 16  # a trained parameter: fp32 weight, gradient and two Adam moments
_MOST_GPUS = 1024  # looked at for a better number
_GIB = 2**30


def roles_share_whole_gpus(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL150: two roles share a part of their GPUs.

    Why: roles on the same GPUs take turns, roles on GPUs of their own work at the same time. With a part shared, the
        shared GPU holds both and makes the others wait.
    Example: `actor: {device_map: "cuda:0,cuda:1"}` with `critic: {device_map: "cuda:1,cuda:2"}`
    Instead: `actor: {device_map: "cuda:0,cuda:1"}` with `critic: {device_map: "cuda:2,cuda:3"}`
    """
    placed = list(_devices(config).items())
    for index, (name, devices) in enumerate(placed):
        for other, others in placed[:index]:
            shared = sorted(devices & others)
            if shared and devices != others:
                gpus = any_of(f"cuda:{number}" for number in shared).replace(" or ", " and ")
                yield Verdict(
                    "VRL150",
                    (f"{name}.device_map", f"{other}.device_map"),
                    f"{gpus} would hold the {name} and the {other}, which share only a part of their GPUs",
                    "give each role GPUs of its own, or both the same",
                    "warning",
                )


def trained_roles_fit_together(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL151: actor and critic train on the same GPUs, and their states do not fit there together.

    Why: a fully trained parameter takes 16 bytes (fp32 weight, gradient and two Adam moments), and a critic is as large
        as its actor. Without GPUs of its own it doubles that, before activations and the rollout's cache.
    Example: a 7B model with `actor: {device_map: "cuda:0,cuda:1"}` and `critic: {device_map: "cuda:0,cuda:1"}`
    Instead: `critic: {device_map: "cuda:2,cuda:3"}`, or `model: {lora_rank: 64}`
    """
    devices, gpu = _devices(config), context.cluster.gpu if context.cluster else None
    alike = "critic" in devices and devices.get("actor") == devices["critic"]
    if gpu is None or not alike or config.model.lora_rank > 0 or config.training.fsdp_config.optimizer_offload:
        return
    from verlcli.facts import model_shape

    paths = (config.model.path, config.critic.path or config.model.path)
    shapes = [model_shape(path) for path in paths if path]
    known = [shape.params for shape in shapes if shape and shape.params]
    gib = sum(known) * _STATE_BYTES / (len(devices["critic"]) * config.distributed.nnodes) / _GIB
    if len(known) == 2 and gib > gpu.memory_gib:
        yield Verdict(
            "VRL151",
            ("critic.device_map", "actor.device_map"),
            f"actor and critic together keep {gib:.0f} GiB of training states on each GPU; the {gpu.name} has "
            f"{gpu.memory_gib:.0f} GiB",
            "put the critic on other GPUs, or train adapters (model.lora_rank)",
            "warning",
        )


def loader_keeps_up(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL152: the number of loader processes does not suit the machine or the batch.

    Why: too few and the GPU waits for rows at the start of each step; more than cores and they take each other's time.
    Example: `data: {num_dataloader_workers: 0, train_batch_size: 1024}`
    Instead: `data: {num_dataloader_workers: auto}`, or `min(32, cpu_cores)`
    """
    workers, batch = config.data.num_dataloader_workers, config.data.train_batch_size
    # The local backend reads rows as it needs them, without processes.
    if config.backend != "verl" or not isinstance(workers, int):
        return
    key, cores = "data.num_dataloader_workers", context.cluster.cpus if context.cluster else None
    if cores is not None and workers > cores:
        message = f"{workers} loader processes on nodes with {cores} cores take each other's time"
        yield Verdict("VRL152", (key,), message, f"set it to {cores} at most, or min(32, cpu_cores)", "warning")
    elif workers < 2 and batch >= _LARGE_BATCH:
        reads = "the training process itself reads" if workers == 0 else "one process reads"
        message = f"{reads} the {batch} prompts of each step"
        yield Verdict(
            "VRL152", (key, "data.train_batch_size"), message, "set it to auto if steps wait for data", "note"
        )


def large_data_are_not_text(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL153: large training data stand in JSON files.

    Why: JSON is parsed from text at every start, line by line; parquet and arrow are read as they are.
    Example: `data: {train_files: train.jsonl}` with a file of some gigabytes
    Instead: `verl data convert train.jsonl train.parquet`
    """
    for file in config.data.train_files:
        try:
            size = os.path.getsize(file) if file.endswith((".json", ".jsonl")) else 0
        except OSError:
            continue
        if size >= _LARGE_TEXT:
            message = f"{size / 2**20:.0f} MiB of JSON are parsed at every start: {file}"
            yield Verdict("VRL153", ("data.train_files",), message, "`verl data convert` makes parquet of it", "note")


def memory_is_pinned_for_a_gpu(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL154: host memory is pinned, but there is no GPU to copy to.

    Why: page-locked memory makes copies to a GPU faster. On the CPU it only keeps memory from other uses.
    Example: `data: {pin_memory: true}` with `distributed: {device: cpu}`
    Instead: `data: {pin_memory: false}`
    """
    on_cpu, keys = config.distributed.device == "cpu", ("data.pin_memory", "distributed.device")
    no_gpu = context.cluster is not None and context.cluster.gpu is None
    if config.data.pin_memory and (on_cpu or no_gpu):
        where = "distributed.device is cpu" if on_cpu else "the cluster has no GPU"
        message = f"pinned memory is for copies to a GPU, and {where}"
        yield Verdict("VRL154", keys, message, "set it to false", "warning", of_presets=False)


def card_computes_the_dtype(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL155: the precision does not suit the card.

    Why: V100, T4 and older cards have no bf16 units and emulate it slowly. The RTX 4090 has them, though it is often
        said to need fp16.
    Example: `model: {dtype: bf16}` with `--cluster 8xV100-32G`
    Instead: `model: {dtype: auto}`
    Source: NVIDIA's table of compute capabilities: bf16 from 8.0 on
    """
    gpu = context.cluster.gpu if context.cluster else None
    if gpu is None or gpu.supports_bf16:
        return
    for key, dtype in _dtypes(config).items():
        if dtype == "bf16":
            message = f"the {gpu.name} has no bf16 units and emulates it slowly"
            yield Verdict("VRL155", (key,), message, "set fp16, or auto", "warning", of_presets=False)


def rollout_leaves_the_trainer_its_memory(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL157: the rollout engine takes most of a GPU on which the trainer stays.

    Why: gpu_memory_utilization is a share of the whole GPU. Beside a trainer whose weights and optimizer stay there,
        0.9 runs out of memory; 0.5 to 0.7 is usual, 0.8 and more when everything of the trainer is offloaded.
    Example: `rollout: {gpu_memory_utilization: 0.9}` with `training: {fsdp_config: {optimizer_offload: false}}`
    Instead: `rollout: {gpu_memory_utilization: 0.6}`
    Source: verl's tuning guide (docs/perf/perf_tuning.rst)
    """
    share, fsdp = config.rollout.gpu_memory_utilization, config.training.fsdp_config
    offloaded = {"weights": fsdp.param_offload, "optimizer": fsdp.optimizer_offload}
    stay = " and ".join(name for name, is_away in offloaded.items() if not is_away)
    # The local backend's rollout takes no more than is free.
    if config.backend == "verl" and share > _HIGH_SHARE and stay:
        keys = ("rollout.gpu_memory_utilization", "training.fsdp_config.optimizer_offload")
        message = f"the rollout takes {share:.0%} of each GPU, and the trainer's {stay} stay there as well"
        advice = "set 0.6, or offload both (training.fsdp_config)"
        yield Verdict("VRL157", keys, message, advice, "warning", of_presets=False)


def copies_of_the_model_fill_the_gpus(config: Config, context: Context) -> Iterator[Verdict]:
    """VRL158: the GPUs of one generating copy of the model do not divide the GPUs of the run.

    Why: each copy takes tensor_model_parallel_size GPUs; a rest would stay idle.
    Example: `rollout: {tensor_model_parallel_size: 3}` with `distributed: {gpus_per_node: 8}`
    Instead: `rollout: {tensor_model_parallel_size: 2}`
    """
    # With the verl backend verl's own rule says so.
    size, each = config.rollout.tensor_model_parallel_size, config.distributed.gpus_per_node
    if config.backend == "verl" or each is None:
        return
    total = each * config.distributed.nnodes
    if total % size:
        good = [count for count in range(1, min(size, total, _MOST_GPUS) + 1) if total % count == 0]
        message = f"copies of {size} GPUs do not divide the {total} GPUs of the run; {total % size} are left over"
        keys = ("rollout.tensor_model_parallel_size", "distributed.gpus_per_node")
        yield Verdict("VRL158", keys, message, f"set it to {any_of(good)}", "warning")


def _devices(config: Config) -> dict[str, frozenset[int]]:
    """GPUs of the roles that this run has and that name some; a map that is not understood is reported by the plan."""
    maps = {"actor": config.actor.device_map}
    if config.algorithm.name == "ppo":
        maps["critic"] = config.critic.device_map
    if config.algorithm.kl_coef > 0 and (config.model.lora_rank == 0 or config.reference.path is not None):
        maps["reference"] = config.reference.device_map
    if config.reward_model.path is not None:
        maps["reward_model"] = config.reward_model.device_map
    return {role: frozenset(map(int, _DEVICE.findall(text))) for role, text in maps.items() if text and "cuda" in text}


def _dtypes(config: Config) -> dict[str, str | None]:
    """Precision of everything that this run has, by key."""
    dtypes: dict[str, str | None] = {"model.dtype": config.model.dtype, "actor.dtype": config.actor.dtype}
    if config.algorithm.name == "ppo":
        dtypes["critic.dtype"] = config.critic.dtype
    if config.algorithm.kl_coef > 0:
        dtypes["reference.dtype"] = config.reference.dtype
    if config.reward_model.path is not None:
        dtypes["reward_model.dtype"] = config.reward_model.dtype
    if config.backend == "verl":
        dtypes["training.fsdp_config.mixed_precision"] = config.training.fsdp_config.mixed_precision
    return dtypes


PITFALLS: tuple[ContextRule, ...] = (
    roles_share_whole_gpus,
    trained_roles_fit_together,
    loader_keeps_up,
    large_data_are_not_text,
    memory_is_pinned_for_a_gpu,
    card_computes_the_dtype,
    rollout_leaves_the_trainer_its_memory,
    copies_of_the_model_fill_the_gpus,
)
