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
    files,
    flips,
    lora,
    memory,
    micro,
    modes,
    offload,
    parallel,
    precision,
    prefill,
    resume,
    reward,
    script,
    sft,
    sharding,
    steps,
    tokens,
    versions,
)
from verlcli.config.verl.rules._base import VerlRule
from verlcli.config.verl.run import VerlRun

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
    *resume.RULES,
    *data.RULES,
    *files.RULES,
    *lora.RULES,
    *modes.RULES,
    *precision.RULES,
    *reward.RULES,
    *script.RULES,
    *versions.RULES,
    *flips.RULES,
    *sft.RULES,
)

_NO_RL = frozenset({"sft", "sft_legacy", "eval", "r1_eval", "generation", "generation_server"})


_HOLD: dict[tuple[str, str, str], tuple[VerlRule, ...]] = {}  # by version, engine and entry, which alone decide it


def rules_for(run: VerlRun) -> tuple[VerlRule, ...]:
    """Rules that hold for a launch; one without `entries` is about training by RL."""
    entry = run.entry or run.tree.entry
    kind = (run.version, run.engine, entry)
    if kind not in _HOLD:
        without_rl = entry in _NO_RL
        _HOLD[kind] = tuple(rule for rule in VERL_RULES if rule.holds_for(run) and (rule.entries or not without_rl))
    return _HOLD[kind]


__all__ = ["VERL_RULES", "VerlRule", "rules_for"]
