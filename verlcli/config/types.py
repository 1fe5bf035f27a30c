"""The typed, frozen `Config`. Defaults live in `schemas/config.schema.json` alone, so no field here has one.

A test holds the fields and the schema's properties equal. No slots: making such classes takes twice as long, and
every command waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

DType = Literal["auto", "fp32", "bf16", "fp16"]


@dataclass(frozen=True)
class ModelConfig:
    path: str | None  # folder, hub id, or .gguf file; relative paths are relative to the file that names them
    shape: Mapping[str, Any] | None
    dtype: DType
    attn_implementation: str
    lora_rank: int
    lora_alpha: int
    lora_target_modules: str | tuple[str, ...]
    enable_gradient_checkpointing: bool
    use_recompute: bool
    trust_remote_code: bool


@dataclass(frozen=True)
class DataConfig:
    train_files: tuple[str, ...]
    val_files: tuple[str, ...]
    source: str | None  # None: the files; else a generator: "arithmetic"
    source_args: Mapping[str, Any]
    prompt_key: str
    max_prompt_length: int  # tokens
    max_response_length: int  # tokens
    train_batch_size: int  # prompts a step
    train_max_samples: int | None
    val_max_samples: int | None
    truncation: Literal["error", "left", "right", "middle"]
    num_dataloader_workers: int | str
    prefetch_factor: int
    pin_memory: bool
    shuffle: bool
    seed: int | None  # None: trainer.seed


@dataclass(frozen=True)
class AlgorithmConfig:
    name: Literal[
        "grpo",
        "ppo",
        "dr_grpo",
        "dapo",
        "rloo",
        "reinforce_plus_plus",
        "reinforce_plus_plus_baseline",
        "gspo",
        "cispo",
    ]
    gamma: float
    lam: float
    clip_ratio: float
    clip_ratio_low: float | None  # None: clip_ratio
    clip_ratio_high: float | None  # None: clip_ratio
    clip_ratio_c: float | None  # dual clip bound; None: off
    value_clip: float
    norm_adv_by_std: bool
    kl_coef: float
    kl_in: Literal["loss", "reward"]
    kl_estimator: Literal["k1", "k2", "k3"]
    kl_target: float | None  # nats a token; None: kl_coef stays
    kl_horizon: int  # responses
    entropy_coef: float
    loss_agg_mode: Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"]
    policy_loss: Literal["clip", "gspo", "cispo"]
    filter_groups: bool
    max_num_gen_batches: int  # batches of prompts a step; 0: no limit
    overlong_buffer: int  # tokens; 0: off
    overlong_penalty: float
    rollout_is: Literal["token"] | None
    rollout_is_threshold: float


@dataclass(frozen=True)
class OptimConfig:
    lr: float
    weight_decay: float
    betas: tuple[float, float]
    eps: float
    clip_grad: float
    lr_scheduler: Literal["constant", "cosine", "linear"]
    warmup_steps: int
    master_dtype: Literal["fp32", "bf16"]


@dataclass(frozen=True)
class ActorConfig:
    device_map: str | None
    training_engine: str | None  # None: the planner chooses
    rollout_engine: str | None  # None: rollout.name
    dtype: DType | None  # None: model.dtype
    use_flash_attention: bool | None
    ulysses_sequence_parallel_size: int
    fsdp_wrap_policy: str | None
    optim: OptimConfig


@dataclass(frozen=True)
class CriticConfig:
    path: str | None  # None: model.path
    device_map: str | None
    training_engine: str | None
    dtype: DType | None
    use_flash_attention: bool | None
    ulysses_sequence_parallel_size: int
    fsdp_wrap_policy: str | None
    optim: OptimConfig


@dataclass(frozen=True)
class ReferenceConfig:
    path: str | None  # None: model.path
    device_map: str | None
    engine: str | None
    dtype: DType | None
    use_flash_attention: bool | None
    ulysses_sequence_parallel_size: int
    fsdp_wrap_policy: str | None


@dataclass(frozen=True)
class RewardModelConfig:
    path: str | None  # None: no reward model
    device_map: str | None
    engine: str | None
    dtype: DType | None
    use_flash_attention: bool | None
    ulysses_sequence_parallel_size: int
    fsdp_wrap_policy: str | None


@dataclass(frozen=True)
class RewardConfig:
    function: tuple[str, ...]  # built-in names or "file.py:function"; the score is their weighted sum
    weights: tuple[float, ...] | None  # None: 1 each
    timeout: float  # seconds for one sample
    max_error_fraction: float  # of a batch; above it training stops


@dataclass(frozen=True)
class RolloutConfig:
    name: str | None  # None: the planner chooses
    n: int  # samples a prompt
    temperature: float
    top_p: float
    top_k: int  # 0: off
    min_tokens: int  # no response ends before
    stop: tuple[str, ...]  # strings that end a response
    batch_size: int | None  # sequences generated at once; None: all
    tensor_model_parallel_size: int
    gpu_memory_utilization: float
    max_num_batched_tokens: int
    max_num_seqs: int
    cpu_offload: bool
    cpu_offload_ratio: float
    use_async_rollout: bool
    num_workers: int
    buffer_size: int | None
    batch_size_per_worker: int | None
    max_staleness: int


@dataclass(frozen=True)
class FsdpConfig:
    param_offload: bool
    optimizer_offload: bool
    mixed_precision: DType | None
    reshard_after_forward: bool
    fsdp_size: int | None


@dataclass(frozen=True)
class TrainingConfig:
    ppo_mini_batch_size: int | None  # prompts an update, over all ranks (as in verl); None: data.train_batch_size
    ppo_micro_batch_size_per_gpu: int | None  # sequences a forward pass; None: the planner chooses
    use_dynamic_bsz: bool
    max_token_len_per_gpu: int
    ppo_epochs: int
    compile: Literal["auto", True, False]
    recompute: Literal["none", "selective", "full", "offload"] | None  # None: as model.enable_gradient_checkpointing
    fsdp_config: FsdpConfig


@dataclass(frozen=True)
class DistributedConfig:
    backend: Literal["auto", "nccl", "gloo"]
    timeout: int  # seconds
    skip_grad_sync: bool
    nnodes: int
    gpus_per_node: int | None  # None: what the machine has
    device: Literal["auto", "cpu", "cuda"]
    ray_address: str | None


@dataclass(frozen=True)
class TrainerConfig:
    total_steps: int
    save_freq: int  # steps; 0: only at the end
    test_freq: int  # steps; 0: only before and after
    keep_checkpoints: int | None  # newest kept; None: all
    output_dir: str | None  # None: runs/NAME
    loggers: tuple[str, ...]
    seed: int
    resume: Literal["auto", "never"] | int


@dataclass(frozen=True)
class MonitorConfig:
    log_interval: int
    metrics: tuple[str, ...]
    alerts: Mapping[str, Any]
    rollback: bool


@dataclass(frozen=True)
class Config:
    backend: Literal["local", "verl"]
    model: ModelConfig
    data: DataConfig
    algorithm: AlgorithmConfig
    actor: ActorConfig
    critic: CriticConfig
    reference: ReferenceConfig
    reward_model: RewardModelConfig
    reward: RewardConfig
    rollout: RolloutConfig
    training: TrainingConfig
    distributed: DistributedConfig
    trainer: TrainerConfig
    monitor: MonitorConfig
    verl: Mapping[str, Any]  # Hydra keys handed on as they are
