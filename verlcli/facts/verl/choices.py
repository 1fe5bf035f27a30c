"""Values that verl accepts where its YAML shows one example only; each row read in verl's source at that version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from verlcli.facts.verl.patterns import fits
from verlcli.facts.verl.trees import DEFAULT_VERSION, VERSIONS


@dataclass(frozen=True)
class Choices:
    """What a key may be."""

    values: tuple[str, ...]
    open: bool  # users can register more: an unknown value is doubtful, not wrong
    source: str  # file in verl
    items: bool  # the key is a list (or one value) and each item must be among `values`


_ADVANTAGES = ("gae", "grpo", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "rloo", "opo")
_ADVANTAGES_05 = (*_ADVANTAGES, "grpo_passk", "gpg")
_ADVANTAGES_06 = (*_ADVANTAGES_05, "rloo_vectorized", "grpo_vectorized")
_ADVANTAGES_07 = (*_ADVANTAGES_06, "optimal_token_baseline", "tir_optimal_token_baseline", "gdpo")
_LOSSES_05 = ("vanilla", "gpg", "clip_cov", "kl_cov")
_LOSSES_06 = (*_LOSSES_05, "gspo", "geo_mean", "rollout_correction")
_LOSSES_07 = (*_LOSSES_05, "gspo", "geo_mean", "bypass_mode", "cispo", "dppo_kl", "dppo_tv", "sapo")
_AGGREGATIONS = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
_KL = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
_KL_07 = (*_KL, *(f"{name}+" for name in _KL))  # straight-through gradient
_TRACKERS = ("console", "wandb", "mlflow", "swanlab", "vemlp_wandb", "tensorboard", "clearml", "tracking")
_MANAGERS = ("naive", "prime", "batch", "dapo")
_LOOP_MANAGERS = ("naive", "dapo", "gdpo", "rate_limited", "remote")
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")  # vLLM's names
_TORCH_DTYPES = ("fp16", "float16", "fp32", "float32", "bf16", "bfloat16", "16", "32")
_LOADERS = ("dummy", "auto", "safetensors", "hf", "pt", "npcache", "tensorizer", "runai_streamer", "bitsandbytes")
_LOADERS_05 = (*_LOADERS, "dummy_dtensor", "dummy_megatron", "dummy_hf", "dtensor", "megatron")
_RS = ("token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3", "seq_mean_k1", "seq_mean_k2")
_RS_07 = (*_RS, "seq_mean_k3", "seq_max_k2", "seq_max_k3")
_ENGINES_07 = ("naive", "nccl", "nixl", "mooncake", "kimi_ckpt_engine")
_PARSERS_07 = ("hermes", "gpt-oss", "qwen3_coder")
_PARSERS_09 = (*_PARSERS_07, "glm", "seed", "minimax", "kimi", "deepseek_v4", "gemma4")
_FSDP = ("fsdp", "fsdp2")

_CORE = "verl/trainer/ppo/core_algos.py"
_ROLLOUT = "verl/workers/rollout/base.py"
_ROLLOUT_CONFIG = "verl/workers/config/rollout.py"
_ENGINE_CONFIG = "verl/workers/config/engine.py"
_CORRECTION = "verl/trainer/ppo/rollout_corr_helper.py"
_DEVICE = "verl/utils/device.py"
_ENGINE_BASE = "verl/checkpoint_engine/base.py"
_LOOP = "verl/experimental/reward_loop/reward_manager/registry.py"
_VLLM_SERVER = "verl/workers/rollout/vllm_rollout/vllm_async_server.py"

# Pattern, first version, values, source, open, items. The newest row that is not newer than the version holds.
_Row = tuple[str, str, tuple[str, ...], str, bool, bool]
_ROWS: tuple[_Row, ...] = (
    ("*rollout.name", "0.5.0", ("vllm", "sglang", "hf"), "verl/workers/fsdp_workers.py", False, False),
    ("*rollout.name", "0.7.1", ("vllm", "sglang", "trtllm"), _ROLLOUT, True, False),
    ("*rollout.mode", "0.5.0", ("sync", "async"), _ROLLOUT, False, False),
    ("*rollout.mode", "0.7.1", ("async",), _ROLLOUT_CONFIG, False, False),
    ("*rollout.load_format", "0.5.0", _LOADERS_05, "verl/workers/sharding_manager", True, False),
    ("*rollout.load_format", "0.6.1", _LOADERS, _VLLM_SERVER, True, False),
    ("*rollout.dtype", "0.5.0", _DTYPES, _VLLM_SERVER, False, False),
    ("*rollout.quantization", "0.6.1", ("fp8",), _VLLM_SERVER, True, False),
    ("*rollout.quantization", "0.7.1", ("fp8", "torchao"), _VLLM_SERVER, False, False),
    ("*rollout.quantization", "0.8.0", ("fp8", "torchao", "ascend"), _VLLM_SERVER, False, False),
    ("*rollout.checkpoint_engine.backend", "0.7.1", _ENGINES_07, _ENGINE_BASE, True, False),
    ("*rollout.checkpoint_engine.backend", "0.9.0", (*_ENGINES_07, "delta_sharded"), _ENGINE_BASE, True, False),
    ("*rollout.multi_turn.format", "0.5.0", ("hermes",), "verl/experimental/agent_loop/tool_parser.py", True, False),
    (
        "*rollout.multi_turn.format",
        "0.6.1",
        _PARSERS_07[:2],
        "verl/experimental/agent_loop/tool_parser.py",
        True,
        False,
    ),
    ("*rollout.multi_turn.format", "0.7.1", _PARSERS_07, "verl/experimental/agent_loop/tool_parser.py", True, False),
    ("*rollout.multi_turn.format", "0.9.0", _PARSERS_09, "verl/experimental/agent_loop/tool_parser.py", True, False),
    (
        "*rollout.multi_turn.tokenization_sanity_check_mode",
        "0.5.0",
        ("disable", "strict", "ignore_strippable"),
        "verl/workers/rollout/schemas.py",
        False,
        False,
    ),
    ("algorithm.adv_estimator", "0.5.0", _ADVANTAGES_05, _CORE, True, False),
    ("algorithm.adv_estimator", "0.6.1", _ADVANTAGES_06, _CORE, True, False),
    ("algorithm.adv_estimator", "0.7.1", _ADVANTAGES_07, _CORE, True, False),
    ("algorithm.kl_penalty", "0.5.0", _KL, _CORE, False, False),
    ("algorithm.kl_penalty", "0.7.1", _KL_07, _CORE, False, False),
    ("algorithm.kl_ctrl.type", "0.5.0", ("fixed", "adaptive"), _CORE, False, False),
    ("algorithm.rollout_correction.rollout_is", "0.6.1", ("token", "sequence"), _CORRECTION, False, False),
    ("algorithm.rollout_correction.rollout_rs", "0.6.1", ("token", "sequence", "geometric"), _CORRECTION, False, False),
    ("algorithm.rollout_correction.rollout_rs", "0.7.1", _RS_07, _CORRECTION, False, True),
    ("algorithm.rollout_correction.loss_type", "0.7.1", ("ppo_clip", "reinforce"), _CORE, False, False),
    ("*.kl_loss_type", "0.5.0", _KL, _CORE, False, False),
    ("*.kl_loss_type", "0.7.1", _KL_07, _CORE, False, False),
    ("*.loss_agg_mode", "0.5.0", _AGGREGATIONS, "verl/workers/config/actor.py", False, False),
    ("*.loss_agg_mode", "0.9.0", (*_AGGREGATIONS, "token-sum"), "verl/workers/config/actor.py", False, False),
    ("*.policy_loss.loss_mode", "0.5.0", _LOSSES_05, _CORE, True, False),
    ("*.policy_loss.loss_mode", "0.6.1", _LOSSES_06, _CORE, True, False),
    ("*.policy_loss.loss_mode", "0.7.1", _LOSSES_07, _CORE, True, False),
    ("*.policy_loss.loss_mode", "0.9.0", (*_LOSSES_07, "dro"), _CORE, True, False),
    ("*.optim.warmup_style", "0.5.0", ("constant", "cosine"), "verl/workers/config/optimizer.py", False, False),
    ("*.optim.lr_scheduler_type", "0.6.1", ("constant", "cosine"), "verl/workers/config/optimizer.py", False, False),
    (
        "*.optim.lr_decay_style",
        "0.5.0",
        ("constant", "linear", "cosine", "inverse-square-root", "WSD"),  # Megatron's own scheduler
        "verl/utils/megatron/optimizer.py",
        False,
        False,
    ),
    ("*.router_replay.mode", "0.7.1", ("disabled", "R2", "R3"), _ENGINE_CONFIG, False, False),
    ("*fsdp_config.dtype", "0.6.1", _TORCH_DTYPES, "verl/utils/torch_dtypes.py", False, False),
    ("critic.fsdp.dtype", "0.8.0", _TORCH_DTYPES, "verl/utils/torch_dtypes.py", False, False),
    ("*fsdp_config.model_dtype", "0.5.0", _TORCH_DTYPES, "verl/utils/torch_dtypes.py", False, False),
    ("critic.fsdp.model_dtype", "0.8.0", _TORCH_DTYPES, "verl/utils/torch_dtypes.py", False, False),
    ("*megatron.dtype", "0.6.1", ("bfloat16", "float16"), _ENGINE_CONFIG, False, False),
    ("*fused_kernel_options.impl_backend", "0.5.0", ("torch", "triton"), "verl/models/transformers", False, False),
    (
        "*fused_kernel_options.impl_backend",
        "0.9.1",
        ("torch", "triton", "liger"),
        "verl/models/transformers",
        False,
        False,
    ),
    ("*fused_kernel_options.impl_backend", "main", ("torch", "triton"), "verl/models/transformers", False, False),
    (
        "*.checkpoint.save_contents",
        "0.5.0",
        ("model", "optimizer", "extra", "hf_model"),
        "verl/utils/checkpoint",
        True,
        True,
    ),
    (
        "*.checkpoint.load_contents",
        "0.5.0",
        ("model", "optimizer", "extra", "hf_model"),
        "verl/utils/checkpoint",
        True,
        True,
    ),
    (
        "data.truncation",
        "0.5.0",
        ("error", "left", "right", "middle"),
        "verl/utils/dataset/rl_dataset.py",
        False,
        False,
    ),
    (
        "trainer.resume_mode",
        "0.5.0",
        ("auto", "disable", "resume_path"),
        "verl/trainer/ppo/ray_trainer.py",
        False,
        False,
    ),
    ("trainer.logger", "0.5.0", _TRACKERS, "verl/utils/tracking.py", False, True),
    ("trainer.logger", "0.6.1", (*_TRACKERS, "trackio", "file"), "verl/utils/tracking.py", False, True),
    ("trainer.logger", "0.9.0", (*_TRACKERS, "trackio", "file", "rl_insight"), "verl/utils/tracking.py", False, True),
    ("trainer.device", "0.5.0", ("cuda", "npu", "cpu"), _DEVICE, True, False),
    (
        "trainer.v1.trainer_mode",
        "0.9.0",
        ("sync", "colocate_async", "separate_async"),
        "verl/trainer/ppo/v1",
        True,
        False,
    ),
    ("trainer.v1.sampler.strategy", "0.9.0", ("drop", "wait"), "verl/trainer/ppo/v1/replay_buffer.py", False, False),
    ("reward_model.reward_manager", "0.5.0", _MANAGERS, "verl/workers/reward_manager", True, False),
    ("reward_model.reward_manager", "0.7.1", _LOOP_MANAGERS, _LOOP, True, False),
    ("reward.reward_manager.name", "0.7.1", _LOOP_MANAGERS, _LOOP, True, False),
    ("reward.reward_manager.source", "0.7.1", ("register", "importlib"), "verl/workers/config/reward.py", False, False),
    (
        "*profiler.tool",
        "0.6.1",
        ("nsys", "npu", "torch", "torch_memory"),
        "verl/utils/profiler/profile.py",
        False,
        False,
    ),
    (
        "*profiler.tool",
        "0.8.0",
        ("nsys", "npu", "torch", "torch_memory", "precision_debugger"),
        "verl/utils/profiler/profile.py",
        False,
        False,
    ),
    (
        "*tool_config.npu.level",
        "0.6.1",
        ("level_none", "level0", "level1", "level2"),
        "verl/utils/profiler",
        False,
        False,
    ),
)
_STRATEGIES = {  # engine -> what `strategy` of its roles may be
    "dp": _FSDP,
    "megatron": ("megatron",),
    "veomni": ("veomni",),
    "torchtitan": ("torchtitan",),
    "mindspeed": ("mindspeed", "megatron"),
    "automodel": ("automodel",),
}


@cache
def choices(key: str, version: str = DEFAULT_VERSION) -> Choices | None:
    """What `key` may be in a version; None where anything goes or nothing is known.

    Values are compared as text. Null is always another matter: it means "not set" wherever the default is null.
    """
    age = VERSIONS.index(version)
    found = [row for row in _ROWS if fits(key, row[0]) and VERSIONS.index(row[1]) <= age]
    if not found:
        return None
    _, _, values, source, is_open, items = max(found, key=lambda row: VERSIONS.index(row[1]))
    return Choices(values, is_open, source, items)


def strategies(engine: str, version: str = DEFAULT_VERSION) -> tuple[str, ...]:
    """What `strategy` may be once the engine is chosen (`verl/workers/config/engine.py`); empty if not known."""
    turbo = engine == "dp" and VERSIONS.index(version) >= VERSIONS.index("0.9.1")
    return (*_STRATEGIES.get(engine, ()), *(("fsdp_turbo",) if turbo else ()))
