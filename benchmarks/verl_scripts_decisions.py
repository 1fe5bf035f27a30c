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
_ROLLOUT_EP = "workers/config/rollout.py asserts expert_parallel_size == tensor_model_parallel_size * data parallel"
_MICRO = "workers/engine/utils.py (before 0.8 fsdp_workers.py) asserts that micro-batches divide a rank's mini-batch"
_MODULE = "the module is in no folder of this version: python3 -m says No module named"
_MEGATRON = "the FSDP tree has no section `megatron`, which this strategy reads: ConfigAttributeError"
_SAPO = "tau_pos and tau_neg are fields of ActorConfig, not of PolicyLossConfig, whose constructor raises TypeError"
_FORMAT = "utils/dataset/rl_dataset.py raises 'Unsupported file format' for other endings, and for folders"
_BETAS = "the quotes reach Hydra, so that optim.betas is a text and betas[0] the character '['"
_NAME = "rollout.name is ??? in the YAML and MISSING in RolloutConfig: MissingMandatoryValue"
_PER_GPU = "engine_workers.py asserts micro_batch_size_per_gpu when use_dynamic_bsz is off"
_CHUNK = "agent_loop.py hands prompts.chunk(num_workers) out, and DataProto.chunk asserts equal chunks"
_SYNC = "workers/config/rollout.py raises ValueError: mode 'sync' has been removed"

DECISIONS: tuple[Decision, ...] = (
    Decision("VRL305", "*", "bash's own words, which are compared too, end at the same place"),
    Decision("VRL201", "tests/special_e2e/run_ppo_trainer_torchtitan.sh", "TP 8 on the one GPU of its own defaults"),
    Decision("VRL202", "examples/grpo_trainer/run_qwen3_235b_a22b_megatron.sh", _ROLLOUT_EP),
    Decision("VRL202", "examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", _ROLLOUT_EP),
    Decision("VRL204", "examples/grpo_trainer/run_qwen3_235b_a22b_megatron.sh", _EP),
    Decision("VRL204", "examples/grpo_trainer/run_qwen3_30b_a3b_megatron.sh", _EP),
    Decision("VRL204", "recipe/dapo/test_dapo_qwen3_moe_30b_megatron_fp16.sh", _EP),
    Decision("VRL204", "recipe/low_precision/run_dapo_qwen3_moe_30b_megatron_fp8e2e.sh", _EP),
    Decision("VRL206", "examples/rollout_correction/*.sh", _MICRO),
    Decision("VRL206", "*", _MICRO, "v0.5.0:0.9.1"),
    Decision(
        "VRL206",
        "verl/experimental/fully_async_policy/shell/dapo_7b_math_fsdp2_4_12.sh",
        "workers/engine_workers.py asserts mini_batch_size % dp == 0, here 512 over 12",
    ),
    Decision("VRL210", "examples/rollout_correction/run_with_rollout_corr.sh", _PER_GPU, "v0.6.1:0.6.1"),
    Decision("VRL210", "*", _PER_GPU, "v0.5.0:0.9.1"),
    Decision(
        "VRL227",
        "examples/mtp_trainer/test_dapo_mimo_7b_with_mtp_math_megatron_4_4.sh",
        "of all entry points main_ppo.py alone calls migrate_legacy_reward_impl; this one is fully_async_main.py",
        "v0.7.1:0.7.1",
    ),
    Decision(
        "VRL236",
        "examples/ppo_trainer/run_qwen2-7b_rm_seq_balance_fused_kernels.sh",
        "verl #5349 masks the vocabulary's last block; 152064 of Qwen2 is no multiple of 1024",
    ),
    Decision("VRL238", "*", "use_mbridge=False is asserted against in workers/engine/megatron", "v0.5.0:0.9.1"),
    Decision("VRL241", "examples/tuning/*_fsdp_vllm.sh", _CHUNK, "v0.7.1:0.7.1"),
    Decision("VRL252", "examples/sapo_trainer/*.sh", _SAPO),
    Decision(
        "VRL252",
        "examples/sglang_multiturn/run_qwen2.5-0.5b_gsm8k_multiturn_w_interaction.sh",
        "HFModelConfig has enable_activation_offload, and its constructor raises TypeError",
    ),
    Decision("VRL254", "examples/sft/gsm8k/run_qwen3_5_*megatron.sh", _BETAS),
    Decision(
        "VRL254",
        "recipe/flash_rl_ascend/test_qwen3-30b_int8_npu.sh",
        "trainer/ppo/reward.py reads reward.reward_manager.name, and a text has none",
    ),
    Decision("VRL255", "*", _SYNC, "v0.5.0:0.9.1"),
    Decision("VRL255", "recipe/dapo/test_dapo_8b_megatron_fp8train.sh", _SYNC),
    Decision(
        "VRL255",
        "recipe/dapo/run_dapo_qwen2.5_32b_rollout_corr.sh",
        "'geometric' is none of SUPPORTED_ROLLOUT_RS_OPTIONS in trainer/ppo/rollout_corr_helper.py, which raises",
    ),
    Decision(
        "VRL255",
        "recipe/fully_async_policy/shell/dapo_7b_math_fsdp2_64_64_mis.sh",
        "rollout_corr_helper.py raises for a rollout_is other than token and sequence",
        "v0.6.1:0.6.1",
    ),
    Decision("VRL261", "examples/*slurm/ray_on_slurm.slurm", _NAME),
    Decision("VRL261", "*", _NAME, "v0.5.0:0.9.1"),
    Decision("VRL262", "examples/router_replay/run_qwen3_30b_a3b_megatron.sh", _MEGATRON),
    Decision("VRL262", "examples/tuning/scaling/run_qwen2_5_32b_megatron.sh", _MEGATRON),
    Decision(
        "VRL272",
        "recipe/qat/run_qwen3_30b_w4a16_megatron*.sh",
        "no file below verl/ reads algorithm.filter_groups in 0.7 and 0.8, and the script starts main_ppo itself",
    ),
    Decision("VRL332", "*", _MODULE),
    Decision("VRL225", "verl/experimental/one_step_off_policy/shell/grpo_qwen3_8b_gsm8k_fsdp2_8_8_npu.sh", _FORMAT),
)


def decided(code: str, script: str, pair: str) -> Decision | None:
    """The decision about a problem of a script at `ref:version`; None: nobody has shown that it is true."""
    found = (each for each in DECISIONS if each.code == code and fnmatch(script, each.script))
    return next((each for each in found if fnmatch(pair, each.refs)), None)
