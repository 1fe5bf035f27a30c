"""Rules about launches of the real verl, one small function each."""

from __future__ import annotations

from verlcli.config.verl.rules import (
    adapters,
    algorithm,
    batch,
    checkpoint,
    cluster,
    data,
    engine_memory,
    flips,
    lora,
    memory,
    micro,
    modes,
    offload,
    parallel,
    precision,
    prefill,
    reward,
    script,
    sharding,
    steps,
    tokens,
    versions,
)
from verlcli.config.verl.rules._base import VerlRule

VERL_RULES: tuple[VerlRule, ...] = (
    *parallel.RULES,
    *sharding.RULES,
    *batch.RULES,
    *steps.RULES,
    *micro.RULES,
    *tokens.RULES,
    *prefill.RULES,
    *memory.RULES,
    *engine_memory.RULES,
    *adapters.RULES,
    *offload.RULES,
    *cluster.RULES,
    *algorithm.RULES,
    *checkpoint.RULES,
    *data.RULES,
    *lora.RULES,
    *modes.RULES,
    *precision.RULES,
    *reward.RULES,
    *script.RULES,
    *versions.RULES,
    *flips.RULES,
)

__all__ = ["VERL_RULES", "VerlRule"]
