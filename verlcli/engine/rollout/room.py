"""Generation that runs out of memory is repeated once, with half as many sequences at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from verlcli.engine.rollout._base import Rollout, RolloutEngine, Sampling
from verlcli.errors import DoesNotFitError


def generate_with_room(
    engine: RolloutEngine,
    prompts: Sequence[Sequence[int]],
    n: int,
    sampling: Sampling,
    *,
    on_notice: Callable[[str], None],
) -> Rollout:
    """`engine.generate`, from the same random state in both attempts; `on_notice` is told of the second.

    Raises:
        DoesNotFitError: there is not enough memory for half as many either.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    cpu, gpus = torch.random.get_rng_state(), [torch.cuda.get_rng_state(i) for i in devices]
    try:
        return engine.generate(prompts, n, sampling)
    except torch.OutOfMemoryError as error:
        first = str(error).splitlines()[0]
    # Outside of `except`, whose traceback would keep the failed call's tensors alive.
    if engine.shrink(len(prompts) * n):
        on_notice(f"out of memory in generation: half as many sequences at once from here on ({first})")
        torch.random.set_rng_state(cpu)
        for device, state in zip(devices, gpus, strict=True):
            torch.cuda.set_rng_state(state, device)
        try:
            return engine.generate(prompts, n, sampling)
        except torch.OutOfMemoryError as error:
            first = str(error).splitlines()[0]
    raise DoesNotFitError(
        f"out of memory in generation: {first}",
        where="rollout",
        fix="shorten data.max_response_length; or lower rollout.batch_size (graph, hf) or "
        "rollout.gpu_memory_utilization (graph, vllm), or hold a share of the cache in host memory (graph: "
        "rollout.cpu_offload: true)",
    )
