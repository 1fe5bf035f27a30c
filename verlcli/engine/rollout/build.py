"""Makes the rollout engine that the plan names; a model that `graph` cannot serve gets `hf`, with a warning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from verlcli.engine.models import hugging_face
from verlcli.engine.rollout._base import RolloutEngine
from verlcli.engine.rollout.graph import GraphRollout
from verlcli.engine.rollout.graph.support import why_not
from verlcli.engine.rollout.hf import HfRollout

if TYPE_CHECKING:
    from torch import nn

    from verlcli.config.types import Config
    from verlcli.plan.types import RolePlan

VLLM_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def build_rollout(
    role: RolePlan,
    module: nn.Module,
    config: Config,
    *,
    eos_ids: Sequence[int],
    tokenizer: Any,
    on_notice: Callable[[str], None],
) -> RolloutEngine:
    """The engine of `role`; `on_notice` is told where another one has to stand in."""
    if role.engine == "vllm":
        return _vllm(role, module, config, eos_ids, tokenizer)
    pad_id, batch_size = tokenizer.pad_token_id, config.rollout.batch_size
    if role.engine == "graph":
        graph = _graph(module, config, eos_ids, tokenizer)
        with torch.random.fork_rng():
            longest = config.data.max_prompt_length + config.data.max_response_length
            reason = why_not(graph, hugging_face(module), longest)
        if reason is None:
            return graph
        on_notice(f"the graph rollout cannot serve this model ({reason}): hf generates, far slower on a GPU")
    return HfRollout(module, eos_ids=eos_ids, pad_id=pad_id, batch_size=batch_size, tokenizer=tokenizer)


def _graph(module: nn.Module, config: Config, eos_ids: Sequence[int], tokenizer: Any) -> GraphRollout:
    rollout = config.rollout
    return GraphRollout(
        module,
        eos_ids=eos_ids,
        pad_id=tokenizer.pad_token_id,
        batch_size=rollout.batch_size,
        memory_fraction=rollout.gpu_memory_utilization,
        host_share=rollout.cpu_offload_ratio if rollout.cpu_offload else 0.0,
        decode=lambda ids: str(tokenizer.decode(ids)),
    )


def _vllm(role: RolePlan, module: nn.Module, config: Config, eos_ids: Sequence[int], tokenizer: Any) -> RolloutEngine:
    from verlcli.engine.rollout.vllm import VllmRollout

    rollout = config.rollout
    return VllmRollout(
        module,
        tokenizer,
        eos_ids=eos_ids,
        pad_id=tokenizer.pad_token_id,
        max_model_len=config.data.max_prompt_length + config.data.max_response_length,
        dtype=VLLM_DTYPES[role.dtype],
        gpu_memory_utilization=rollout.gpu_memory_utilization,
        max_num_batched_tokens=rollout.max_num_batched_tokens,
        max_num_seqs=rollout.max_num_seqs,
    )
