"""What type a key wants, where verl's source makes it certain."""

from __future__ import annotations

from functools import cache
from typing import Any

from verlcli.facts.verl.bounds import Bounds, bounds
from verlcli.facts.verl.choices import Choices, choices, strategies
from verlcli.facts.verl.data import DEFAULT, TYPE, facts, part, tree_mask
from verlcli.facts.verl.trees import DEFAULT_VERSION

__all__ = ["Bounds", "Choices", "bounds", "choices", "expected_type", "is_of_type", "strategies"]

# No dataclass stands behind `data` and `trainer`, and a default of 8 alone does not tell a whole number from another.
_INTEGERS = frozenset(
    (
        "data.train_batch_size",
        "data.gen_batch_size",
        "data.val_batch_size",
        "data.max_prompt_length",
        "data.max_response_length",
        "data.max_length",
        "data.train_max_samples",
        "data.val_max_samples",
        "data.dataloader_num_workers",
        "data.image_patch_size",
        "data.filter_overlong_prompts_workers",
        "trainer.nnodes",
        "trainer.n_gpus_per_node",
        "trainer.total_epochs",
        "trainer.save_freq",
        "trainer.total_training_steps",
        "trainer.test_freq",
        "trainer.critic_warmup",
        "trainer.max_actor_ckpt_to_keep",
        "trainer.max_critic_ckpt_to_keep",
        "trainer.log_val_generations",
        "rollout.nnodes",
        "rollout.n_gpus_per_node",
        "rollout.n",
        "rollout.total_rollout_steps",
        "async_training.trigger_parameter_sync_step",
        "async_training.require_batches",
        "ray_kwargs.ray_init.num_cpus",
        "actor_rollout_ref.model.lora.rank",
        "critic.model.lora.rank",
        "actor_rollout_ref.ref.log_prob_micro_batch_size",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu",
    )
)
_PYTHON: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "string": (str,),
    "list": (list, tuple),
    "map": (dict,),
    "null": (type(None),),
}


@cache
def expected_type(key: str, version: str = DEFAULT_VERSION) -> str | None:
    """Types that `key` takes, joined by `|`: "integer", "number|null", "string|list"; None where nothing is certain.

    From the field of the dataclass that the section becomes, else from the default. Null is among them wherever some
    tree of the version has null as the default.
    """
    row = facts().keys.get(key)
    if row is None:
        return None
    mask = tree_mask(version)
    defaults = list(facts().pick(part(row, DEFAULT), mask))
    declared = {name for kind in facts().pick(part(row, TYPE), mask) for name in kind.split("|")}
    names = declared or ({"integer"} if key in _INTEGERS else _from_defaults(defaults))
    if not names:
        return None
    if None in defaults or any("${" in str(value) for value in defaults):  # what it refers to may be null
        names = names | {"null"}
    return "|".join(sorted(names, key=lambda name: (name == "null", name)))


def _from_defaults(defaults: list[Any]) -> set[str]:
    """A boolean, a fraction, or a list of mappings' kind; text and whole numbers tell too little."""
    if not defaults:
        return set()
    found = {
        "boolean" if isinstance(value, bool) else "number" if isinstance(value, float) else "" for value in defaults
    }
    return found if "" not in found else set()


def is_of_type(value: Any, kind: str) -> bool:
    """Whether a value fits what `expected_type` says. A boolean is no number; a whole float is an integer."""
    for name in kind.split("|"):
        if isinstance(value, _PYTHON[name]) and (name == "boolean" or not isinstance(value, bool)):
            return True
        if name == "integer" and isinstance(value, float) and value.is_integer():
            return True
    return False
