"""Cross-key rules, one small function each: what a schema of single keys cannot say."""

from __future__ import annotations

from verlcli.config.rules import algorithm, batch, engines, files, generation, inputs, schedule, steering
from verlcli.config.rules._base import ContextRule, Rule, Verdict
from verlcli.config.rules.pitfalls import PITFALLS
from verlcli.config.rules.rows import prompts_fit, rows_fill_a_batch

RULES: tuple[Rule, ...] = (
    inputs.model_is_named,
    inputs.model_is_named_once,
    inputs.data_is_named,
    inputs.data_is_named_once,
    inputs.source_args_have_a_source,
    inputs.validation_is_held_out,
    inputs.weights_match_functions,
    inputs.something_rewards,
    files.rewards_exist,
    files.reward_files_exist,
    files.model_paths_exist,
    files.data_files_exist,
    batch.mini_batch_fits,
    batch.mini_batch_divides,
    batch.group_has_company,
    algorithm.clip_range_said_once,
    algorithm.clip_bounds_ordered,
    algorithm.name_holds,
    steering.groups_can_differ,
    steering.overlong_buffer_fits,
    steering.kl_target_has_a_term,
    steering.kl_loss_has_a_gradient,
    engines.rollout_engine_said_once,
    engines.offload_share_is_used,
    engines.workers_fill_the_buffer,
    engines.verl_keys_have_a_reader,
    engines.attention_is_known,
    generation.shortest_is_not_above_longest,
    generation.recomputation_said_once,
    schedule.warmup_ends,
)

# verl has rules of its own about these, with its own arithmetic.
LOCAL_RULES = frozenset({batch.mini_batch_fits, batch.mini_batch_divides, batch.group_has_company})

# They need facts beside the text, and say so when those are missing.
CONTEXT_RULES: tuple[ContextRule, ...] = (*PITFALLS, rows_fill_a_batch, prompts_fit)

__all__ = ["CONTEXT_RULES", "LOCAL_RULES", "RULES", "Rule", "Verdict"]
