"""Rules about engines, precision and offload that contradict each other whatever the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config
from verlcli.config.wording import any_of, closest

# Those of transformers 5; a test finds new ones.
ATTENTION = (
    "auto",
    "eager",
    "sdpa",
    "flash_attention_2",
    "flash_attention_3",
    "flash_attention_4",
    "flex_attention",
)
_HUB_KERNEL = re.compile(r"[\w.-]+/[\w.-]+(@[\w.-]+)?(:[\w.-]+)?")


def rollout_engine_said_once(config: Config) -> Iterator[Verdict]:
    """VRL130: two rollout engines are named.

    Why: actor.rollout_engine and rollout.name name the same thing.
    Example: `actor: {rollout_engine: vllm}` with `rollout: {name: hf}`
    Instead: keep one of them
    """
    engine, name = config.actor.rollout_engine, config.rollout.name
    if engine is not None and name is not None and engine != name:
        yield Verdict(
            "VRL130",
            ("actor.rollout_engine", "rollout.name"),
            f"'{engine}' here, but rollout.name is '{name}'; both name the engine that generates",
            "keep one of them",
        )


def offload_share_is_used(config: Config) -> Iterator[Verdict]:
    """VRL131: offloading of the KV cache is half set.

    Why: cpu_offload is the switch and cpu_offload_ratio the share; one without the other offloads nothing.
    Example: `rollout: {cpu_offload: true}`
    Instead: `rollout: {cpu_offload: true, cpu_offload_ratio: 0.3}`
    """
    on, share = config.rollout.cpu_offload, config.rollout.cpu_offload_ratio
    if on != (share > 0):
        yield Verdict(
            "VRL131",
            ("rollout.cpu_offload_ratio", "rollout.cpu_offload")[:: 1 if share else -1],
            f"cpu_offload is {str(on).lower()} and cpu_offload_ratio is {share:g}: nothing is offloaded",
            "set both, such as cpu_offload: true and cpu_offload_ratio: 0.3, or neither",
            "warning",
        )


def workers_fill_the_buffer(config: Config) -> Iterator[Verdict]:
    """VRL132: a worker's batch is larger than the buffer.

    Why: a rollout worker hands in whole batches, and this one would never fit.
    Example: `rollout: {buffer_size: 16, batch_size_per_worker: 32}`
    Instead: a buffer of at least one batch of each worker
    """
    buffer, batch = config.rollout.buffer_size, config.rollout.batch_size_per_worker
    if buffer is not None and batch is not None and batch > buffer:
        yield Verdict(
            "VRL132",
            ("rollout.batch_size_per_worker", "rollout.buffer_size"),
            f"a worker's batch of {batch} does not fit into the buffer of {buffer}",
            f"lower it to {buffer}, or raise rollout.buffer_size",
        )


def verl_keys_have_a_reader(config: Config) -> Iterator[Verdict]:
    """VRL133: keys for verl with a backend that is not verl.

    Why: what stands under `verl:` is handed to verl as it is; other backends do not read it.
    Example: `backend: local` with `verl: {trainer: {balance_batch: false}}`
    Instead: `backend: verl`, or remove the section
    """
    if config.verl and config.backend != "verl":
        yield Verdict(
            "VRL133",
            ("verl", "backend"),
            f"the {config.backend} backend does not read `verl:`",
            "set backend: verl, or remove the section",
            "warning",
        )


def attention_is_known(config: Config) -> Iterator[Verdict]:
    """VRL134: an attention implementation that transformers does not have.

    Why: it would be noticed when the model is built.
    Example: `model: {attn_implementation: flash_attn}`
    Instead: `model: {attn_implementation: flash_attention_2}`, or a kernel of the hub as owner/name
    """
    name = config.model.attn_implementation
    if name in ATTENTION or _HUB_KERNEL.fullmatch(name):
        return
    close = closest(name, ATTENTION)
    yield Verdict(
        "VRL134",
        ("model.attn_implementation",),
        f"'{name}' is not one of: {any_of(ATTENTION)}",
        f"did you mean '{close}'?" if close else "write one of them, or a kernel of the hub as owner/name",
    )
