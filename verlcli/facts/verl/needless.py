"""Keys that are gone from verl and that nobody misses: without them a run does what it did with them."""

from __future__ import annotations

from typing import Any

# Each with all below it: always so by now, or about workers that no longer exist.
NEEDLESS: frozenset[str] = frozenset(
    {
        "actor_rollout_ref.actor.megatron.grad_offload",  # param_offload frees the gradients too
        "actor_rollout_ref.ref.megatron.grad_offload",
        "critic.megatron.grad_offload",
        "trainer.use_legacy_worker_impl",
        # How reward models were trained beside the policy; they run in a server of their own.
        "reward_model.forward_max_token_len_per_gpu",
        "reward_model.launch_reward_fn_async",
        "reward_model.micro_batch_size",
        "reward_model.micro_batch_size_per_gpu",
        "reward_model.model.fsdp_config",
        "reward_model.model.use_remove_padding",
        "reward_model.profiler",
        "reward_model.strategy",
        "reward_model.ulysses_sequence_parallel_size",
        "reward_model.use_dynamic_bsz",
    }
)


def is_needless(key: str, value: Any) -> bool:
    """Whether a removed key can go without anybody's decision: what it asks for is off, or was needed by nobody."""
    names = key.split(".")
    sections = (".".join(names[:count]) for count in range(1, len(names) + 1))
    return value is None or value is False or any(name in NEEDLESS for name in sections)
