"""Errors that Hydra does not judge, each decided by reading verl's source at that ref: would the run die, or ignore?

Only decisions that the error is right stand here; every other error on a script that Hydra accepts counts as false.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch


@dataclass(frozen=True)
class Decision:
    """One error that is true.

    Attributes:
        code: of the problem.
        script: pattern of the script's path.
        reason: why it is true, with verl's file.
        refs: `ref:version` patterns for which it was read.
    """

    code: str
    script: str
    reason: str
    refs: str = "*"


_EP = "EP x ETP (null: TP) x PP does not divide the GPUs: Megatron's initialize_model_parallel raises"
_ROLLOUT_EP = "workers/config/rollout.py asserts expert_parallel_size == tensor_model_parallel_size * data_parallel_size"
_MICRO = "workers/engine/utils.py asserts that micro-batches divide a rank's part of the mini-batch"
_MEGATRON = "the FSDP tree has no section `megatron`, which this strategy reads: ConfigAttributeError"
_SAPO = "tau_pos and tau_neg are fields of ActorConfig, not of PolicyLossConfig, whose constructor raises TypeError"
_FORMAT = "utils/dataset/rl_dataset.py raises 'Unsupported file format' for other endings, and for folders"

DECISIONS: tuple[Decision, ...] = (
    Decision("VRL204", "examples/grpo_trainer/run_qwen3_235b_a22b_megatron.sh", _EP),
    Decision("VRL204", "examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", _EP),
    Decision("VRL204", "recipe/dapo/test_dapo_qwen3_moe_30b_megatron_fp16.sh", _EP),
    Decision("VRL204", "recipe/low_precision/run_dapo_qwen3_moe_30b_megatron_fp8e2e.sh", _EP),
    Decision("VRL202", "examples/grpo_trainer/run_qwen3_235b_a22b_megatron.sh", _ROLLOUT_EP),
    Decision("VRL202", "examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", _ROLLOUT_EP),
    Decision("VRL206", "examples/rollout_correction/run_qwen2_5_7b_fsdp*.sh", _MICRO),
    Decision(
        "VRL206",
        "verl/experimental/fully_async_policy/shell/dapo_7b_math_fsdp2_4_12.sh",
        "workers/engine_workers.py asserts mini_batch_size % dp == 0, here 512 over 12",
    ),
    Decision("VRL262", "examples/router_replay/run_qwen3_30b_a3b_megatron.sh", _MEGATRON),
    Decision("VRL262", "examples/tuning/scaling/run_qwen2_5_32b_megatron.sh", _MEGATRON),
    Decision("VRL252", "examples/sapo_trainer/*.sh", _SAPO),
    Decision(
        "VRL254",
        "examples/sft/gsm8k/run_qwen3_5_397b_a17b_megatron.sh",
        "the quotes reach Hydra, so that optim.betas is a text and betas[0] the character '['",
    ),
    Decision(
        "VRL261",
        "examples/tutorial/slurm/ray_on_slurm.slurm",
        "rollout.name is MISSING in RolloutConfig and ??? in the YAML: MissingMandatoryValue",
    ),
    Decision(
        "VRL255",
        "recipe/dapo/run_dapo_qwen2.5_32b_rollout_corr.sh",
        "'geometric' is none of SUPPORTED_ROLLOUT_RS_OPTIONS in trainer/ppo/rollout_corr_helper.py, which raises",
    ),
    Decision(
        "VRL305",
        "verl/experimental/fully_async_policy/shell/geo3k_qwen25vl_7b_megatron_4_4.sh",
        "an empty line ends the command: bash itself passes 13 overrides and calls the rest 'command not found'",
    ),
    Decision("VRL225", "recipe/entropy/*.sh", _FORMAT),
    Decision("VRL225", "verl/experimental/one_step_off_policy/shell/grpo_qwen3_8b_gsm8k_fsdp2_8_8_npu.sh", _FORMAT),
)


def decided(code: str, script: str, pair: str) -> Decision | None:
    """The decision about a problem of a script at `ref:version`; None: nobody has shown that it is true."""
    found = (each for each in DECISIONS if each.code == code and fnmatch(script, each.script))
    return next((each for each in found if fnmatch(pair, each.refs)), None)
