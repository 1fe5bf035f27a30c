"""Rules about LoRA: which keys an engine reads, ranks that the rollout takes, how weights reach it."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import ACTOR, MODEL, ROLLOUT, is_adapter, listed, lora_rank, shape_at, strategy
from verlcli.config.verl.run import VerlRun

_FLAT, _NESTED, _MERGE = f"{MODEL}.lora_rank", f"{MODEL}.lora.rank", f"{MODEL}.lora.merge"
_ADAPTER = f"{MODEL}.lora_adapter_path"
_SUMMON, _FORMAT = f"{ROLLOUT}.layered_summon", f"{ROLLOUT}.load_format"
_LARGEST_RANK = 512
_VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # vLLM 0.8-0.10, vllm/config: LoRAConfig
_FULL_RATE = 1e-6  # verl's default learning rate


@rule(engines=("dp",))
def summoned_base_is_loaded(run: VerlRun) -> Iterator[Verdict]:
    """VRL215: layered_summon with a rollout engine that starts from dummy weights.

    Why: with LoRA the rollout engine gets the adapter, and the base weights once. layered_summon gathers the adapter
        alone, so the engine must have loaded the base itself; with load_format=dummy, which is verl's default, the
        first weight sync raises a ValueError.
    Example: actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.rollout.layered_summon=True
    Instead: actor_rollout_ref.rollout.load_format=safetensors
    Source: verl/utils/fsdp_utils.py; verl issue 3149
    """
    if is_adapter(run) and run.flag(_SUMMON) and (run.text(_FORMAT) or "").startswith("dummy"):
        yield Verdict(
            "VRL215",
            (_FORMAT, _SUMMON, _FLAT),
            f"{run.shown(_SUMMON)} needs base weights that the engine loaded itself, and {run.shown(_FORMAT)}",
            f"set {run.name(_FORMAT)}=safetensors",
            fix=Fix("set", _FORMAT, "safetensors"),
        )


@rule(engines=("dp",))
def base_is_gathered_whole(run: VerlRun) -> Iterator[Verdict]:
    """VRL215: LoRA with a rollout engine that starts from dummy weights.

    Why: the base weights then come from the trainer at the first weight sync: FSDP gathers the whole model on every
        GPU for it, 4 bytes a parameter by default, beside the engine's own copy.
    Example: actor_rollout_ref.model.lora_rank=32, and nothing about load_format
    Instead: actor_rollout_ref.rollout.load_format=safetensors actor_rollout_ref.rollout.layered_summon=True
    Source: verl/utils/fsdp_utils.py, verl/workers/engine_workers.py; verl issue 3366
    """
    if not is_adapter(run) or run.flag(_SUMMON) or strategy(run) != "fsdp":
        return
    if (run.text(_FORMAT) or "").startswith("dummy"):
        summon = f", and {run.name(_SUMMON)}=True" if run.gpus > 1 else ""
        yield Verdict(
            "VRL215",
            (_FORMAT, _FLAT),
            f"with {run.shown(_FORMAT)} and LoRA every GPU gathers the whole base model at the first weight sync",
            f"set {run.name(_FORMAT)}=safetensors{summon}",
            "note",
        )


@rule(engines=("dp", "megatron"))
def rank_stands_where_the_engine_reads(run: VerlRun) -> Iterator[Verdict]:
    """VRL216: the LoRA rank stands in a key that this training engine does not read.

    Why: FSDP reads model.lora_rank and Megatron model.lora.rank. With the other one all weights are trained, while
        the rollout engine is started for LoRA and the reference policy counts as "the actor without its adapter",
        that is, as the actor itself.
    Example: model_engine=megatron actor_rollout_ref.model.lora_rank=32
    Instead: model_engine=megatron actor_rollout_ref.model.lora.rank=32
    Source: verl/workers/engine/fsdp/transformer_impl.py, verl/trainer/ppo/v1/trainer_base.py
    """
    megatron = run.engine == "megatron"
    dead, read = (_FLAT, _NESTED) if megatron else (_NESTED, _FLAT)
    if run.get(dead) is None or run.integer(dead) <= 0 or lora_rank(run) > 0:
        return
    reads = run.has(read)
    yield Verdict(
        "VRL216",
        (dead, read),
        f"{'Megatron' if megatron else 'FSDP'} does not read {run.name(dead)}: all weights are trained"
        + (", and the reference policy is the actor itself" if reads else ""),
        f"write {run.name(read)}={run.integer(dead)}" if reads else f"remove it; verl {run.version} has no LoRA here",
        fix=Fix("rename", dead, read) if reads and not run.is_set(read) else None,
    )


@rule(versions=">=0.8", engines=("dp",))
def adapter_is_loaded(run: VerlRun) -> Iterator[Verdict]:
    """VRL216: the path of an adapter without a LoRA rank.

    Why: since 0.8 FSDP and vLLM go by model.lora_rank alone. With a rank of 0 the adapter is not loaded and all weights
        are trained, while the reference policy counts as "the actor without its adapter", that is, as the actor itself.
    Example: actor_rollout_ref.model.lora_adapter_path=/models/adapter, and nothing about lora_rank
    Instead: actor_rollout_ref.model.lora_rank=32, the rank in its adapter_config.json
    Source: verl/workers/engine/fsdp/transformer_impl.py, verl/trainer/ppo/v1/trainer_base.py
    """
    if run.has(_ADAPTER) and run.text(_ADAPTER) and lora_rank(run) == 0 and not run.get(_NESTED):
        yield Verdict(
            "VRL216",
            (_ADAPTER, _FLAT),
            f"{run.name(_ADAPTER)} is not loaded while {run.shown(_FLAT)}: all weights of the base model are trained",
            f"set {run.name(_FLAT)} to the rank in its adapter_config.json",
        )


@rule(versions="<0.8", engines=("dp",))
def sglang_gets_merged_weights(run: VerlRun) -> Iterator[Verdict]:
    """VRL217: LoRA with an SGLang rollout that does not serve adapters.

    Why: before 0.8 verl hands SGLang the adapter's tensors as if they were weights of the model, so that the rollout
        goes on with the base model. With model.lora.merge it gets whole weights; vLLM serves adapters.
    Example: actor_rollout_ref.rollout.name=sglang actor_rollout_ref.model.lora_rank=32, with verl 0.7
    Instead: actor_rollout_ref.rollout.name=vllm
    Source: verl/workers/rollout/sglang_rollout/sglang_rollout.py (0.7.1)
    """
    name = f"{ROLLOUT}.name"
    if run.get(name) == "sglang" and is_adapter(run):
        message = f"{run.shown(name)} does not serve LoRA adapters in verl {run.version}"
        merge = f", or {run.name(_MERGE)}=True" if run.has(_MERGE) else ""
        yield Verdict("VRL217", (name, _FLAT), message, f"set {run.name(name)}=vllm{merge}", "warning")


@rule()
def rank_fits_vllm(run: VerlRun) -> Iterator[Verdict]:
    """VRL217: a LoRA rank that vLLM does not take.

    Why: vLLM serves adapters up to rank 512, which verl checks at its start. verl 0.5 hands the rank on as it is, and
        vLLM knows a few only; newer versions round up.
    Example: actor_rollout_ref.model.lora_rank=1024
    Instead: actor_rollout_ref.model.lora_rank=512, or model.lora.merge=True
    Source: verl/workers/rollout/vllm_rollout/utils.py; verl issues 3696, 4836
    """
    if not is_adapter(run) or run.get(f"{ROLLOUT}.name") != "vllm":
        return
    rank, key = lora_rank(run), _NESTED if run.engine == "megatron" else _FLAT
    if rank > _LARGEST_RANK:
        merge = f", or {run.name(_MERGE)}=True" if run.has(_MERGE) else ""
        message = f"{run.shown(key)} is more than the {_LARGEST_RANK} that vLLM serves"
        yield Verdict("VRL217", (key,), message, f"set it to {_LARGEST_RANK} or less{merge}")
    elif run.version.startswith("0.5") and rank not in _VLLM_RANKS:
        below = [known for known in _VLLM_RANKS if known < rank][-1:]
        above = [known for known in _VLLM_RANKS if known > rank][:1]
        message = f"vLLM has no LoRA rank {rank}, and verl {run.version} does not round it up"
        yield Verdict("VRL217", (key,), message, f"set it to {listed([*below, *above])}")


@rule(engines=("dp",))
def adapters_leave_vision_out(run: VerlRun) -> Iterator[Verdict]:
    """VRL217: LoRA on the vision tower of a model.

    Why: all-linear puts adapters on the vision tower as well, and vLLM serves adapters for the language model only:
        it does not load them, or the tower that generates is not the one that is trained.
    Example: actor_rollout_ref.model.lora_rank=32 with Qwen2.5-VL, and target_modules left at all-linear
    Instead: actor_rollout_ref.model.exclude_modules='.*visual.*'
    Source: verl issue 3922; examples/tuning/lora of verl
    """
    targets, excluded = f"{MODEL}.target_modules", f"{MODEL}.exclude_modules"
    if not is_adapter(run) or run.get(targets) != "all-linear" or run.get(excluded) is not None:
        return
    if run.get(f"{ROLLOUT}.name") == "vllm" and shape_at(run).vision:
        message = f"{run.shown(targets)} puts adapters on the vision tower too, which vLLM does not serve"
        yield Verdict(
            "VRL217", (targets, excluded, _FLAT), message, f"add {run.name(excluded)}='.*visual.*'", "warning"
        )


@rule()
def adapters_learn_faster(run: VerlRun) -> Iterator[Verdict]:
    """VRL217: LoRA with the learning rate of full fine-tuning.

    Why: an adapter is usually trained at about ten times the learning rate of all weights; verl's default is 1e-6.
    Example: actor_rollout_ref.model.lora_rank=32, and nothing about actor.optim.lr
    Instead: actor_rollout_ref.actor.optim.lr=1e-5
    Source: docs/advance/ppo_lora.rst of verl
    """
    key = f"{ACTOR}.optim.lr"
    if lora_rank(run) > 0 and run.number(key) <= _FULL_RATE:
        message = f"{run.shown(key)} is a rate for full fine-tuning; LoRA usually takes about ten times that"
        yield Verdict("VRL217", (key, _FLAT), message, f"try {run.name(key)}=1e-5", "note")


RULES: tuple[VerlRule, ...] = (
    summoned_base_is_loaded,
    base_is_gathered_whole,
    rank_stands_where_the_engine_reads,
    adapter_is_loaded,
    sglang_gets_merged_weights,
    rank_fits_vllm,
    adapters_leave_vision_out,
    adapters_learn_faster,
)
