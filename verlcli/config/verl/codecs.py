"""How single values translate between our keys and verl's, both ways, by name."""

from __future__ import annotations

from typing import Any

from verlcli.config.algorithms import ALGORITHMS
from verlcli.config.verl.pairs import ABSENT, View

_FAR = 1_000_000_000  # steps or a bound that no run reaches
_SHORT = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_LONG = {long: short for short, long in _SHORT.items()}
_LOSSES = {"clip": "vanilla", "gspo": "gspo", "cispo": "cispo"}


def unless_null(value: Any, view: View) -> Any:
    """Null stands for verl's own default."""
    return ABSENT if value is None else value


def unless_auto(value: Any, view: View) -> Any:
    """`auto` and null stand for verl's own default."""
    return ABSENT if value in (None, "auto") else value


def files(value: Any, view: View) -> Any:
    """One file alone, several as a list; none: verl's own default."""
    if not isinstance(value, list):
        return unless_null(value, view)
    return (value[0] if len(value) == 1 else value) if value else ABSENT


def file_list(value: Any) -> Any:
    """A list, also of one file."""
    return [value] if isinstance(value, str) else value


def all_as_minus_one(value: Any, view: View) -> Any:
    """Null (all) is verl's -1."""
    return -1 if value is None else value


def minus_one_as_all(value: Any) -> Any:
    """verl's -1 (all) is null."""
    return None if value == -1 else value


def off_as_minus_one(value: Any, view: View) -> Any:
    """0 (off) is verl's -1."""
    return -1 if value == 0 else value


def minus_one_as_off(value: Any) -> Any:
    """verl's -1 (off) is 0."""
    return 0 if value == -1 else value


def whole_number(value: Any, view: View) -> Any:
    """A number; what this machine would have to work out is left to verl's default."""
    return value if isinstance(value, int) else ABSENT


def order_seed(value: Any, view: View) -> Any:
    """Null is `trainer.seed`."""
    return view.value("trainer.seed") if value is None else value


def not_null(value: Any) -> Any:
    """verl's null has no word here."""
    return ABSENT if value is None else value


def clip_side(value: Any, view: View) -> Any:
    """Null is `algorithm.clip_ratio`."""
    return view.value("algorithm.clip_ratio") if value is None else value


def dual_clip(value: Any, view: View) -> Any:
    """Null (off) is a bound that no ratio reaches: verl has no switch."""
    return float(_FAR) if value is None else value


def steps_between(value: Any, view: View) -> Any:
    """0 (only at the end) is an interval that no run reaches: verl's last step counts as a multiple of any interval."""
    return _FAR if value == 0 else value


def positive(value: Any) -> Any:
    """verl's -1 (never) and null have no word here."""
    return value if isinstance(value, int) and value > 0 else ABSENT


def checkpointing(value: Any, view: View) -> Any:
    """On when `training.recompute` recomputes anything, or where it is not set when either of the older names is on."""
    chosen = view.value("training.recompute")
    return bool(value) or bool(view.value("model.use_recompute")) if chosen is None else chosen != "none"


def adapters(value: Any, view: View) -> Any:
    """Details of LoRA mean nothing without a rank."""
    return value if view.value("model.lora_rank") or view.said("model.lora_alpha") else ABSENT


def adapter_modules(value: Any, view: View) -> Any:
    """Megatron names its own modules, and has no `all-linear`."""
    if not view.value("model.lora_rank") and not view.said("model.lora_target_modules"):
        return ABSENT
    return ABSENT if view.tree.engine == "megatron" and value == "all-linear" else value


def algorithm_name(value: Any, view: View) -> Any:
    """verl's advantage estimator of the algorithm: `gae` for `ppo`, `grpo` for its kin."""
    return ALGORITHMS[value].estimator if value in ALGORITHMS else value


def estimator(value: Any) -> Any:
    """verl's `gae` is `ppo`; most others have one name on both sides, and the rest no word here."""
    name = "ppo" if value == "gae" else value
    known = isinstance(name, str) and name in ALGORITHMS and ALGORITHMS[name].estimator == value
    return name if known else ABSENT


def loss_mode(value: Any, view: View) -> Any:
    """`clip` is verl's `vanilla`; what a version does not have is not handed on."""
    from verlcli.facts.verl.types import choices

    known = choices("actor_rollout_ref.actor.policy_loss.loss_mode", view.tree.version)
    name = _LOSSES.get(value, value)
    return name if known is None or name in known.values else ABSENT


def policy_loss(value: Any) -> Any:
    """verl's `vanilla` is `clip`; its further losses have no word here."""
    names = {verl: name for name, verl in _LOSSES.items()}
    return names.get(value, ABSENT) if isinstance(value, str) else ABSENT


def compute_dtype(value: Any, view: View) -> Any:
    """FSDP's `bf16` is Megatron's `bfloat16`; `auto` and null: verl's own default."""
    found = _SHORT.get(value, ABSENT)
    return found if found is ABSENT or view.tree.engine == "megatron" else value


def short_dtype(value: Any) -> Any:
    """`bfloat16` is `bf16`, as is `bf16`."""
    return _LONG.get(value, value if value in _SHORT else ABSENT) if isinstance(value, str) else ABSENT


def warmup(value: Any) -> Any:
    """verl's -1 without a ratio is 0 steps."""
    return 0 if value in (-1, None) else value


def engine_name(value: Any, view: View) -> Any:
    """The rollout engine under either of our two names; null: none is chosen."""
    return unless_null(view.value("actor.rollout_engine") if value is None else value, view)


def critic_path(value: Any, view: View) -> Any:
    """Null is `model.path`, where a critic is trained."""
    return unless_null(view.value("model.path") if value is None and view.has_critic else value, view)


def mini_batch(value: Any, view: View) -> Any:
    """Null is the whole batch."""
    return unless_null(view.value("data.train_batch_size") if value is None else value, view)


def loggers(value: Any, view: View) -> Any:
    """verl names the terminal too, as `console`; our `jsonl` is its `file`, in versions that have it."""
    from verlcli.facts.verl.types import choices

    names = value if isinstance(value, list) else [value]
    known = choices("trainer.logger", view.tree.version)
    has_file = known is None or "file" in known.values
    return ["console", *("file" if name == "jsonl" else name for name in names if name != "jsonl" or has_file)]


def logger_names(value: Any) -> Any:
    """Without `console`, which is always there."""
    if not isinstance(value, list):
        return ABSENT
    return ["jsonl" if name == "file" else name for name in value if name != "console"]
