"""Ranges of numbers known for sure, and the part of a range that is legal yet hardly ever meant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from verlcli.facts.verl.patterns import fits


@dataclass(frozen=True)
class Bounds:
    """A range; None means no bound on that side. `plausible_*` are for warnings, the others for errors."""

    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    plausible_minimum: float | None = None
    plausible_maximum: float | None = None
    special: tuple[float, ...] = ()  # values outside the range with a meaning of their own: -1 for "off"

    def allows(self, value: float) -> bool:
        """Whether `value` is legal."""
        if value in self.special:
            return True
        low = self.minimum is None or value > self.minimum or (value == self.minimum and not self.exclusive_minimum)
        high = self.maximum is None or value < self.maximum or (value == self.maximum and not self.exclusive_maximum)
        return low and high

    def plausible(self, value: float) -> bool:
        """Whether a legal `value` is one that people mean."""
        low = self.plausible_minimum is None or value >= self.plausible_minimum
        return value in self.special or (low and (self.plausible_maximum is None or value <= self.plausible_maximum))

    def text(self) -> str:
        """The range in words: `above 0, at most 1`."""
        low = None if self.minimum is None else f"{'above' if self.exclusive_minimum else 'at least'} {self.minimum:g}"
        high = None if self.maximum is None else f"{'below' if self.exclusive_maximum else 'at most'} {self.maximum:g}"
        special = f"or {' or '.join(f'{value:g}' for value in self.special)}" if self.special else None
        return ", ".join(part for part in (low, high, special) if part)


_COUNT = Bounds(1)
_FROM_0 = Bounds(0)
_SHARE = Bounds(0, 1)
_POSITIVE = Bounds(0, exclusive_minimum=True)
_OR_OFF = Bounds(1, special=(-1,))

# The first pattern that fits holds.
_ROWS: tuple[tuple[str, Bounds], ...] = (
    (
        "*rollout.gpu_memory_utilization",
        Bounds(0, 1, exclusive_minimum=True, plausible_minimum=0.1, plausible_maximum=0.95),
    ),
    ("*rollout.standalone_gpu_memory_utilization", Bounds(0, 1, exclusive_minimum=True)),
    ("actor_rollout_ref.rollout.n", Bounds(1, plausible_maximum=1024)),
    ("*.val_kwargs.n", _COUNT),
    ("*rollout.temperature", Bounds(0, plausible_maximum=2)),
    ("*.val_kwargs.temperature", Bounds(0, plausible_maximum=2)),
    ("*.top_p", Bounds(0, 1, exclusive_minimum=True)),
    ("*.top_k", Bounds(1, special=(-1, 0))),  # vLLM: both mean all tokens
    ("*.repetition_penalty", _POSITIVE),
    ("*.tensor_model_parallel_size", _COUNT),
    ("*.pipeline_model_parallel_size", _COUNT),
    ("*.context_parallel_size", _COUNT),
    ("*.expert_model_parallel_size", _COUNT),
    ("*.expert_parallel_size", _COUNT),
    ("*.data_parallel_size", _COUNT),
    ("*.ulysses_sequence_parallel_size", _COUNT),
    ("*.fsdp_size", _OR_OFF),
    ("*rollout.max_num_seqs", _COUNT),
    ("*rollout.max_num_batched_tokens", _COUNT),
    ("*rollout.max_model_len", _COUNT),
    ("*rollout.agent.num_workers", _COUNT),
    ("*.update_weights_bucket_megabytes", _COUNT),
    ("actor_rollout_ref.rollout.nnodes", _FROM_0),  # 0: no rollout nodes of their own
    ("*.clip_ratio_c", Bounds(1, exclusive_minimum=True)),  # dual clip (arXiv 1912.09729)
    ("*.clip_ratio*", Bounds(0, plausible_maximum=1)),  # an asymmetric upper bound of 0.28 is common, 10 is not
    ("*.entropy_coeff", Bounds(plausible_minimum=-0.1, plausible_maximum=0.1)),
    ("*.kl_loss_coef", Bounds(0, plausible_maximum=1)),
    ("*.kl_coef", Bounds(0, plausible_maximum=1)),
    ("*.cliprange_value", _POSITIVE),
    ("*.ppo_epochs", _COUNT),
    ("*mini_batch_size", _COUNT),
    ("*micro_batch_size*", _COUNT),
    ("*max_token_len_per_gpu", _COUNT),
    ("*optim.lr", Bounds(0, plausible_maximum=0.1)),  # 0 trains nothing and is used to measure speed
    ("*optim.min_lr_ratio", _SHARE),
    ("*optim.lr_warmup_steps_ratio", _SHARE),
    ("*optim.lr_warmup_steps", Bounds(0, special=(-1,))),
    ("*optim.weight_decay", Bounds(0, plausible_maximum=1)),
    ("*optim.clip_grad", Bounds(0, plausible_maximum=100)),
    ("*.grad_clip", Bounds(0, plausible_maximum=100)),
    ("*.lora_rank", _FROM_0),
    ("*.lora.rank", _FROM_0),
    ("*.lora_alpha", _POSITIVE),
    ("*.lora.alpha", _POSITIVE),
    ("algorithm.gamma", Bounds(0, 1)),
    ("algorithm.lam", Bounds(0, 1)),
    ("algorithm.rollout_correction.rollout_is_threshold", _POSITIVE),
    ("algorithm.kl_ctrl.horizon", _COUNT),
    ("data.max_prompt_length", _COUNT),
    ("data.max_response_length", _COUNT),
    ("data.max_length", _COUNT),
    ("data.train_batch_size", _COUNT),
    ("data.gen_batch_size", _COUNT),
    ("data.train_max_samples", _OR_OFF),
    ("data.val_max_samples", _OR_OFF),
    ("data.dataloader_num_workers", _FROM_0),
    ("data.filter_overlong_prompts_workers", _COUNT),
    ("trainer.nnodes", _COUNT),
    ("trainer.n_gpus_per_node", Bounds(1, plausible_maximum=16)),
    ("trainer.total_epochs", _COUNT),
    ("trainer.total_training_steps", _COUNT),
    ("trainer.save_freq", Bounds(1, special=(-1, 0))),
    ("trainer.test_freq", Bounds(1, special=(-1, 0))),
    ("trainer.critic_warmup", _FROM_0),
    ("trainer.max_*_ckpt_to_keep", _COUNT),
    ("trainer.log_val_generations", Bounds(0, special=(-1,))),  # a slice: -1 shows all but the last
    ("trainer.ray_wait_register_center_timeout", _COUNT),
    ("reward.num_workers", _COUNT),
    ("async_training.staleness_threshold", _FROM_0),
    ("async_training.trigger_parameter_sync_step", _COUNT),
    ("async_training.require_batches", _COUNT),
    ("rollout.nnodes", _COUNT),
    ("rollout.n_gpus_per_node", _COUNT),
    ("rollout.total_rollout_steps", _COUNT),
    ("trainer.v1.separate_async.parameter_sync_step", _COUNT),
    ("ray_kwargs.ray_init.num_cpus", _COUNT),
)


# Entry points in which a key has another range.
_OF_ENTRY: dict[tuple[str, str], Bounds] = {
    ("fully_async", "data.train_batch_size"): _FROM_0,  # 0: its rollouter streams prompts
    ("fully_async", "rollout.nnodes"): _FROM_0,  # dynamic scheduling may do without nodes of its own
}


def bounds(key: str, entry: str = "main_ppo") -> Bounds | None:
    """Range of a key in an entry point; None where none is known. Null is no number: check that first."""
    return _OF_ENTRY.get((entry, key)) or _of_key(key)


@cache
def _of_key(key: str) -> Bounds | None:
    return next((found for pattern, found in _ROWS if fits(key, pattern)), None)
