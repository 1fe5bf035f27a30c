"""What several rules read out of a launch: its roles, how they split their GPUs, and which code of verl runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from verlcli.config.context import NotKnown
from verlcli.config.verl.run import VerlRun

if TYPE_CHECKING:
    from verlcli.facts import ModelShape

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{name}" for name in ("actor", "ref", "rollout"))
MODEL = "actor_rollout_ref.model"
CRITIC = "critic"
TP, DP, PP = (f"{ROLLOUT}.{name}_parallel_size" for name in ("tensor_model", "data", "pipeline_model"))
NODES, GPUS = "trainer.nnodes", "trainer.n_gpus_per_node"
BATCH, SAMPLES = "data.train_batch_size", f"{ROLLOUT}.n"
CONTEXT = f"{ROLLOUT}.max_model_len"
PROMPT, RESPONSE = "data.max_prompt_length", "data.max_response_length"
APART = ("fully_async", "one_step_off")  # entry points whose rollout engines have GPUs of their own

_ABSURD = 10**9

Role = Literal["actor", "ref", "critic"]
ROOTS: dict[Role, str] = {"actor": ACTOR, "ref": REF, "critic": CRITIC}


def at_least(run: VerlRun, version: str) -> bool:
    """Whether this launch's verl is `version` or newer; `main` is newer than every release."""
    return _is_least(run.version, version)


@cache
def _is_least(version: str, least: str) -> bool:
    from packaging.version import Version

    return version == "main" or Version(version) >= Version(least)


def size(run: VerlRun, key: str) -> int:
    """Whole number at `key`, 1 where it is null or this verl version does not have it.

    Raises:
        NotKnown: as `VerlRun.integer`, and for numbers below 1, which are reported elsewhere.
    """
    value = run.get(key)
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise NotKnown
    return value


def nearest(number: int, step: int) -> str:
    """Multiples of `step` around `number`, for a suggestion: `96 or 104`."""
    below = number // step * step
    return f"{below} or {below + step}" if below else str(step)


def divisors(number: int) -> list[int]:
    """Divisors of a positive number, smallest first; of an absurd one, not worth the time, only 1."""
    if number > _ABSURD:
        return [1]
    small = [size for size in range(1, math.isqrt(number) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})


def listed(numbers: list[int]) -> str:
    """Numbers for a suggestion: `1, 2 or 4`."""
    texts = [str(number) for number in numbers]
    return f"{', '.join(texts[:-1])} or {texts[-1]}" if len(texts) > 1 else "".join(texts)


def heads_fit(shape: ModelShape, ranks: int) -> bool:
    """Whether `ranks` can share a model's attention heads, and its key-value heads or whole copies of them."""
    heads, kv_heads = shape.num_attention_heads, shape.num_key_value_heads
    return heads % ranks == 0 and (kv_heads % ranks == 0 or ranks % kv_heads == 0)


def shape_at(run: VerlRun, key: str = f"{MODEL}.path") -> ModelShape:
    """Shape of the model that somebody named at `key`.

    Raises:
        NotKnown: as `VerlRun.shape`; silently for verl's placeholder, which is reported elsewhere.
    """
    if not run.is_set(key):
        raise NotKnown
    return run.shape(key)


def has_own_rollout_gpus(run: VerlRun) -> bool:
    """Whether rollout engines run on other GPUs than the trainer; in separate_async more may run on the trainer's."""
    return run.tree.entry in APART or (trains_v1(run) and run.get("trainer.v1.trainer_mode") == "separate_async")


def pool_keys(run: VerlRun) -> Iterator[tuple[str, str]]:
    """Keys of nodes and of GPUs a node for each group of GPUs that no other shares, the trainer's first."""
    yield NODES, GPUS
    if has_own_rollout_gpus(run):
        root = "rollout" if run.tree.entry in APART else ROLLOUT
        yield f"{root}.nnodes", f"{root}.n_gpus_per_node"
    for root in ("reward.reward_model", "reward_model"):  # the old name is still taken over
        if run.has(f"{root}.enable_resource_pool") and run.flag(f"{root}.enable_resource_pool"):
            yield f"{root}.nnodes", f"{root}.n_gpus_per_node"
            return


def fsdp_key(run: VerlRun, role: Role, name: str) -> str:
    """Key `name` of a role's FSDP section: the critic's has another name since 0.8."""
    section = "fsdp_config" if role != "critic" else "fsdp" if at_least(run, "0.8") else "model.fsdp_config"
    return f"{ROOTS[role]}.{section}.{name}"


def sequence_parallel(run: VerlRun, role: Role) -> tuple[str, int]:
    """Key and size of the Ulysses sequence parallelism of an FSDP role.

    Two keys exist. Until 0.7 the workers read the first alone; since 0.8 the engine reads the second one, which
    actor and ref fill from the first when it is above 1 (verl/workers/config/actor.py).
    """
    root = ROOTS[role]
    old = f"{root}.ulysses_sequence_parallel_size"
    new = f"{root}.{'fsdp' if role == 'critic' else 'fsdp_config'}.ulysses_sequence_parallel_size"
    if not at_least(run, "0.8") or (role != "critic" and size(run, old) > 1):
        return old, size(run, old)
    return new, size(run, new)


def runs_on_cuda(run: VerlRun) -> bool:
    """Whether it trains on NVIDIA's cards; what is known of GPUs and clusters says nothing about NPUs."""
    return not run.has("trainer.device") or run.get("trainer.device") in (None, "cuda")


def to_write(run: VerlRun, key: str) -> str:
    """A key as it is to be written where nobody has set it: `++` adds one that verl's YAML does not list."""
    return run.name(key) if run.source == "config" or run.has(key) else f"++{key}"


def expect_fsdp(run: VerlRun) -> None:
    """Leave a rule about FSDP when the actor's strategy is another engine's, which is reported elsewhere.

    Raises:
        NotKnown: silently, in that case.
    """
    if not strategy(run).startswith("fsdp"):
        raise NotKnown


@dataclass(frozen=True, slots=True)
class Split:
    """GPUs that share one copy of a role's data, as a product of sizes with the keys they come from."""

    keys: tuple[str, ...]
    factors: tuple[int, ...]

    @property
    def size(self) -> int:
        """GPUs of one copy."""
        return math.prod(self.factors)


def split_of(run: VerlRun, role: Role) -> Split:
    """How a role splits one copy of its data over GPUs.

    Raises:
        NotKnown: as `size`, and for engines whose layout is not modelled.
    """
    root = ROOTS[role]
    if run.engine == "dp":
        expect_fsdp(run)
        key, ranks = sequence_parallel(run, role)
        return Split((key,), (ranks,))
    if run.engine == "veomni":
        keys: tuple[str, ...] = (f"{root}.veomni.ulysses_parallel_size",)
    elif run.engine == "megatron":
        parts = ("tensor_model", "pipeline_model", "context")
        keys = tuple(f"{root}.megatron.{part}_parallel_size" for part in parts)
    else:
        raise NotKnown
    return Split(keys, tuple(size(run, key) for key in keys))


def data_ranks(run: VerlRun, role: Role) -> int:
    """Data-parallel ranks of a role: each gets its own share of a batch.

    Raises:
        NotKnown: as `split_of`; silently when the GPUs cannot be divided so, which is reported elsewhere.
    """
    if run.engine == "megatron" and run.get(f"{ROOTS[role]}.megatron.dynamic_context_parallel") is True:
        return 1  # every group sees the whole batch
    ranks, rest = divmod(run.gpus, split_of(run, role).size)
    if rest:
        raise NotKnown
    return ranks


def uses_ref(run: VerlRun) -> bool:
    """Whether a reference policy is needed at all (verl/trainer/ppo/utils.py)."""
    return run.flag("algorithm.use_kl_in_reward") or run.flag(f"{ACTOR}.use_kl_loss")


def uses_critic(run: VerlRun) -> bool:
    """Whether a critic is trained: as `critic.enable` says, else with the estimator `gae`."""
    enabled = run.get("critic.enable")
    return run.get("algorithm.adv_estimator") == "gae" if enabled is None else run.flag("critic.enable")


def trained(run: VerlRun) -> tuple[Role, ...]:
    """Roles of the launch whose model is split over the trainer's GPUs."""
    return ("actor", *(("ref",) if uses_ref(run) else ()), *(("critic",) if uses_critic(run) else ()))


def lora_rank(run: VerlRun) -> int:
    """LoRA rank of the key that this training engine reads; 0: full fine-tuning, as in a version without the key."""
    key = f"{MODEL}.lora.rank" if run.engine == "megatron" else f"{MODEL}.lora_rank"
    return 0 if run.get(key) is None else run.integer(key)


def is_adapter(run: VerlRun) -> bool:
    """Whether a LoRA adapter is trained, and handed to the rollout engine as one instead of merged weights.

    Both the trainer and the engine go by the rank; since 0.8 the path of an adapter alone switches nothing on.
    """
    by_path = run.engine == "dp" and not at_least(run, "0.8") and run.get(f"{MODEL}.lora_adapter_path") is not None
    return (by_path or lora_rank(run) > 0) and not run.flag(f"{MODEL}.lora.merge")


def has_ref_copy(run: VerlRun) -> bool:
    """Whether the reference policy is a model of its own: with LoRA it is the actor without its adapter."""
    return uses_ref(run) and lora_rank(run) == 0 and run.get(f"{MODEL}.lora_adapter_path") is None


def trains_v1(run: VerlRun) -> bool:
    """Whether the trainer of 0.9 runs, which pads batches instead of refusing them."""
    return run.tree.entry == "main_ppo" and run.get("trainer.use_v1") is True


def longest(run: VerlRun) -> int:
    """Tokens of the longest sequence that may come: prompt and response; raises as `VerlRun.integer`."""
    return run.integer(PROMPT) + run.integer(RESPONSE)


def strategy(run: VerlRun) -> str:
    """Training strategy of the actor: `fsdp`, `fsdp2`, ..."""
    return run.text(f"{ACTOR}.strategy") or ""
