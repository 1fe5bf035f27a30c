"""Keys that the user set and that change nothing in this run: each gets a note, none is ignored in silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from verlcli.config.algorithms import ALGORITHMS
from verlcli.config.layers import Origin
from verlcli.config.types import AlgorithmConfig, Config
from verlcli.plan.types import Device, Note

_ONE_PROCESS = "the local backend trains in one process"
_IN_TURN = "the local backend generates and trains in turn"
_MEMORY = "the local backend keeps everything on its device"
_ROWS = "the local backend reads rows as it needs them, without loader workers"

# Keys (and all keys under them) that the local backend does not use yet, and why.
LOCAL: dict[str, str] = {
    "rollout.use_async_rollout": _IN_TURN,
    "rollout.num_workers": _IN_TURN,
    "rollout.buffer_size": _IN_TURN,
    "rollout.batch_size_per_worker": _IN_TURN,
    "rollout.max_staleness": _IN_TURN,
    "rollout.tensor_model_parallel_size": _ONE_PROCESS,
    "actor.ulysses_sequence_parallel_size": _ONE_PROCESS,
    "critic.ulysses_sequence_parallel_size": _ONE_PROCESS,
    "reference.ulysses_sequence_parallel_size": _ONE_PROCESS,
    "reward_model.ulysses_sequence_parallel_size": _ONE_PROCESS,
    "actor.fsdp_wrap_policy": _ONE_PROCESS,
    "critic.fsdp_wrap_policy": _ONE_PROCESS,
    "reference.fsdp_wrap_policy": _ONE_PROCESS,
    "reward_model.fsdp_wrap_policy": _ONE_PROCESS,
    "training.fsdp_config.param_offload": _MEMORY,
    "training.fsdp_config.optimizer_offload": _MEMORY,
    "training.fsdp_config.mixed_precision": "the local backend takes model.dtype and the roles' dtype",
    "training.fsdp_config.reshard_after_forward": _ONE_PROCESS,
    "training.fsdp_config.fsdp_size": _ONE_PROCESS,
    "distributed.skip_grad_sync": _ONE_PROCESS,
    "distributed.backend": _ONE_PROCESS,
    "distributed.timeout": _ONE_PROCESS,
    "distributed.ray_address": "the local backend does not use Ray",
    "data.prefetch_factor": _ROWS,
    "data.num_dataloader_workers": _ROWS,
    "data.pin_memory": _ROWS,
    "trainer.loggers": "metrics.jsonl is always written, and this release has no other logger",
    "monitor": "this release has no monitor; metrics.jsonl has every step",
    "model.shape": "it plans only; training takes the model from model.path",
}

_ROLE_ATTENTION = "the local backend takes the fastest attention that is installed"
LOCAL.update({f"{role}.use_flash_attention": _ROLE_ATTENTION for role in ("actor", "critic", "reference")})
LOCAL["reward_model.use_flash_attention"] = "the local backend loads reward models with transformers' own attention"
_IN_PLACE = ("exact_match", "numeric", "gsm8k", "format")  # built-in rewards that run without a time limit


def ineffective_keys(
    config: Config, device: Device, rollout: str, origins: Mapping[str, Sequence[Origin]]
) -> tuple[Note, ...]:
    """A warning for each key that is set away from its default and has no effect in this run, whose rollout engine is
    `rollout`."""
    table = _left_out(config)
    if device == "cpu":
        table["distributed.gpus_per_node"] = "the run is on the cpu"
    if config.backend == "local":
        table |= LOCAL | _of_rollout(config, device, rollout)
    keys = sorted(key for key, layers in origins.items() if _is_set(layers))
    covered = [(key, _covering(key, table)) for key in keys if not _is_shared(origins[key], key, config)]
    return tuple(Note("warning", key, f"no effect: {table[name]}") for key, name in covered if name is not None)


def _of_rollout(config: Config, device: Device, engine: str) -> dict[str, str]:
    """Keys that only another rollout engine, or a GPU, has a use for."""
    table = dict[str, str]()
    where = f"the {engine} rollout" + (" on a cpu" if device == "cpu" else "")
    if engine == "vllm":
        table["rollout.batch_size"] = "rollout.max_num_seqs bounds the sequences of the vllm rollout"
    else:
        scheduler = ("rollout.max_num_batched_tokens", "rollout.max_num_seqs")
        table |= dict.fromkeys(scheduler, f"{where} has no such setting")
    if engine == "hf" or device == "cpu":
        table["rollout.gpu_memory_utilization"] = f"{where} has no cache of its own on a GPU"
    if engine != "graph" or device == "cpu":
        table |= dict.fromkeys(("rollout.cpu_offload", "rollout.cpu_offload_ratio"), f"{where} has no such setting")
    elif not config.rollout.cpu_offload:
        table["rollout.cpu_offload_ratio"] = "rollout.cpu_offload is false"
    return table


def _is_set(layers: Sequence[Origin]) -> bool:
    """True when a layer above the default decides and says something else than the default."""
    lowest, highest = layers[0], layers[-1]
    return highest.kind != "default" and not (lowest.kind == "default" and lowest.value == highest.value)


def _is_shared(layers: Sequence[Origin], key: str, config: Config) -> bool:
    """A key of `actor_rollout_ref` that the reference has no use for still says something to the actor."""
    shared = layers[-1].written.startswith("actor_rollout_ref.") and key.startswith("reference.")
    return shared and not (config.backend == "local" and key in LOCAL)


def _covering(key: str, table: Collection[str]) -> str | None:
    """The table's entry that is `key` or the nearest map above it."""
    parts = key.split(".")
    names = (".".join(parts[:i]) for i in range(len(parts), 0, -1))
    return next((name for name in names if name in table), None)


def _left_out(config: Config) -> dict[str, str]:
    """What the config itself leaves out of the run, by key or section, and why."""
    algorithm, table = config.algorithm, dict[str, str]()
    table |= _of_algorithm(algorithm)
    if algorithm.kl_coef == 0:
        reference_keys = ("reference", "algorithm.kl_in", "algorithm.kl_estimator", "algorithm.kl_horizon")
        table |= dict.fromkeys(reference_keys, "algorithm.kl_coef is 0, so the run has no reference")
    if config.reward_model.path is None:
        table["reward_model"] = "reward_model.path is not set, so the run has no reward model"
    if config.model.lora_rank > 0 and config.reference.path is None:
        table.setdefault("reference", "under LoRA the reference is the actor without its adapter, unless it has a path")
    table |= _batch_and_inputs(config)
    if config.model.lora_rank == 0:
        table |= dict.fromkeys(("model.lora_alpha", "model.lora_target_modules"), "model.lora_rank is 0")
    return table


def _of_algorithm(algorithm: AlgorithmConfig) -> dict[str, str]:
    table, estimator = dict[str, str](), ALGORITHMS[algorithm.name].estimator
    if estimator != "grpo":
        table["algorithm.norm_adv_by_std"] = f"algorithm.name {algorithm.name} does not norm by groups of samples"
    if estimator != "gae":
        critic_keys = ("critic", "algorithm.lam", "algorithm.value_clip")
        table |= dict.fromkeys(critic_keys, f"algorithm.name {algorithm.name} has no critic")
    if estimator not in ("gae", "reinforce_plus_plus"):
        table["algorithm.gamma"] = f"algorithm.name {algorithm.name} rewards whole answers"
    if algorithm.policy_loss != "clip":
        table["algorithm.clip_ratio_c"] = f"algorithm.policy_loss {algorithm.policy_loss} has no dual clip"
    if algorithm.kl_target is None:
        table["algorithm.kl_horizon"] = "algorithm.kl_target is not set"
    if not algorithm.filter_groups:
        table["algorithm.max_num_gen_batches"] = "algorithm.filter_groups is off"
    if algorithm.overlong_buffer == 0:
        table["algorithm.overlong_penalty"] = "algorithm.overlong_buffer is 0"
    if algorithm.rollout_is is None:
        table["algorithm.rollout_is_threshold"] = "algorithm.rollout_is is off"
    return table


def _batch_and_inputs(config: Config) -> dict[str, str]:
    data, training, table = config.data, config.training, dict[str, str]()
    dynamic = training.use_dynamic_bsz
    if training.ppo_micro_batch_size_per_gpu is not None and not dynamic:
        table["training.max_token_len_per_gpu"] = "training.ppo_micro_batch_size_per_gpu is set"
    if dynamic and config.backend == "local":
        table["training.ppo_micro_batch_size_per_gpu"] = "training.use_dynamic_bsz cuts micro batches by tokens"
    if data.source is not None:
        table["data.prompt_key"] = f"data.source {data.source} makes the prompts"
    elif not data.val_files:
        table |= dict.fromkeys(("trainer.test_freq", "data.val_max_samples"), "there are no data.val_files")
    if set(config.reward.function) <= set(_IN_PLACE):
        table["reward.timeout"] = "built-in rewards run in place, without a limit"
    return table
