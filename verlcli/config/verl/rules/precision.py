"""Rules about number formats and kernels: what the GPUs compute, and what a model's sizes allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import (
    ACTOR,
    MODEL,
    ROLLOUT,
    at_least,
    longest,
    runs_on_cuda,
    sequence_parallel,
    to_write,
)
from verlcli.config.verl.run import VerlRun

if TYPE_CHECKING:
    from verlcli.facts import GpuModel

_DTYPE, _QUANTIZATION = f"{ROLLOUT}.dtype", f"{ROLLOUT}.quantization"
_FSDP_DTYPE, _MIXED = f"{ACTOR}.fsdp_config.dtype", f"{ACTOR}.fsdp_config.mixed_precision"
_MEGATRON_DTYPE = f"{ACTOR}.megatron.dtype"
_ATTENTION, _PADDING = f"{MODEL}.override_config.attn_implementation", f"{MODEL}.use_remove_padding"
_FUSED, _BACKEND = f"{MODEL}.use_fused_kernels", f"{MODEL}.fused_kernel_options.impl_backend"
_DYNAMIC, _TOKENS = f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_max_token_len_per_gpu"
_MICRO, _CHUNKED = f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.entropy_from_logits_with_chunking"
_BF16, _HALF = ("bfloat16", "bf16"), ("float16", "fp16", "half")
_LOGIT_BYTES = 7  # a logit in fp32, its copy in bf16 and the mask of the entropy (verl's performance guide)
_SHARE = 0.5  # of a GPU, above which logits leave little for weights and activations
_LARGEST_VOCABULARY = 262_208  # Gemma 3
_GIB = 2**30


def _gpu(run: VerlRun) -> GpuModel | None:
    """The GPU that somebody named; nobody is asked for one, as most run on cards that do all this."""
    return run.context.cluster.gpu if run.context.cluster and runs_on_cuda(run) else None


@rule()
def card_computes_the_dtype(run: VerlRun) -> Iterator[Verdict]:
    """VRL235: the GPU does not have what is asked for: bf16, FP8 or FlashAttention 2.

    Why: bf16 and FlashAttention 2, verl's defaults, need compute capability 8.0 (A100, RTX 30xx): on a V100 or T4 vLLM
        refuses the one, and the first forward pass stops for the other. FP8 needs 8.9 (L4, H100).
    Example: --cluster 8xV100-32G, and nothing about actor_rollout_ref.rollout.dtype
    Instead: actor_rollout_ref.rollout.dtype=half
        ++actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp16
    Source: vLLM's platforms/cuda.py; verl issues 2594, 985
    """
    gpu = _gpu(run)
    if gpu is None:
        return
    if not gpu.supports_bf16 and run.text(_DTYPE) in _BF16:
        message = f"{run.shown(_DTYPE)}, which the {gpu.name} does not have: the rollout engine refuses it"
        fix = Fix("set", _DTYPE, "half")
        yield Verdict("VRL235", (_DTYPE,), message, f"set {run.name(_DTYPE)}=half", fix=fix)
    key, dtype = _trained_in(run)
    if not gpu.supports_bf16 and dtype in _BF16:
        half = "float16" if key == _MEGATRON_DTYPE else "fp16"
        message = f"the actor trains in {dtype}, which the {gpu.name} only emulates, slowly"
        yield Verdict("VRL235", (key,), message, f"set {to_write(run, key)}={half}", "warning")
    if not gpu.supports_fp8 and run.text(_QUANTIZATION) == "fp8":
        message = f"{run.shown(_QUANTIZATION)}, which the {gpu.name} does not have"
        yield Verdict("VRL235", (_QUANTIZATION,), message, f"set {run.name(_QUANTIZATION)}=null", "warning")


def _trained_in(run: VerlRun) -> tuple[str, str | None]:
    """Key and value of the number format that the actor computes in."""
    if run.engine == "megatron":
        return _MEGATRON_DTYPE, run.text(_MEGATRON_DTYPE)
    key = f"{_MIXED}.param_dtype"
    mixed = run.get(_MIXED)
    given = mixed.get("param_dtype") if isinstance(mixed, dict) else run.get(key)
    # Without it up to 0.7 the other key counts, later bf16 is fixed.
    other = None if at_least(run, "0.8") else run.text(_FSDP_DTYPE)
    return key, str(given) if given is not None else other or ("bf16" if run.engine == "dp" else None)


@rule(versions=">=0.8", engines=("dp",))
def dtype_is_read(run: VerlRun) -> Iterator[Verdict]:
    """VRL273: `fsdp_config.dtype` does not set what FSDP computes in.

    Why: from 0.8 on FSDP reads mixed_precision.param_dtype alone, and takes bf16 when it is not set. A float16 under
        fsdp_config.dtype changes nothing, and no loss scaling is switched on.
    Example: actor_rollout_ref.actor.fsdp_config.dtype=float16
    Instead: ++actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp16
    Source: verl/workers/engine/fsdp/transformer_impl.py
    """
    asked = run.text(_FSDP_DTYPE) if run.is_set(_FSDP_DTYPE) else None
    if (
        asked is not None
        and asked not in _BF16
        and run.get(_MIXED) is None
        and run.get(f"{_MIXED}.param_dtype") is None
    ):
        yield Verdict(
            "VRL273",
            (_FSDP_DTYPE,),
            f"{run.shown(_FSDP_DTYPE)} is not read: FSDP computes in bf16",
            f"set {to_write(run, f'{_MIXED}.param_dtype')}={'fp16' if asked in _HALF else 'fp32'}",
            "warning",
        )


@rule()
def card_has_the_attention(run: VerlRun) -> Iterator[Verdict]:
    """VRL235: FlashAttention 2 on a GPU that it does not support.

    Why: verl loads models with flash_attention_2 unless told otherwise; it needs compute capability 8.0 and raises at
        the first forward pass on a V100 or T4.
    Example: --cluster 8xV100-32G, and nothing about attn_implementation
    Instead: ++actor_rollout_ref.model.override_config.attn_implementation=sdpa
        actor_rollout_ref.model.use_remove_padding=False
    Source: verl/workers/config/model.py; verl issues 985, 6495
    """
    gpu = _gpu(run)
    # The reference and actor share the model section; Megatron has kernels of its own.
    if gpu is None or gpu.supports_flash_attention or run.engine != "dp" or not run.has(_PADDING):
        return
    asked = run.text(_ATTENTION)
    if asked is None or asked.startswith("flash_attention"):
        name = "flash_attention_2, verl's default," if asked is None else asked
        yield Verdict(
            "VRL235",
            (_ATTENTION, _PADDING),
            f"{name} does not run on the {gpu.name}",
            f"set {to_write(run, _ATTENTION)}=sdpa and {run.name(_PADDING)}=False",
        )


@rule()
def fused_kernel_fits_the_model(run: VerlRun) -> Iterator[Verdict]:
    """VRL236: the fused triton kernel does not fit the model's sizes.

    Why: it asserts a hidden size that is a multiple of 128. Up to 0.7.0 it also took entries past the vocabulary into
        its sum when the vocabulary is no multiple of 1024: wrong log-probabilities, and the reward collapses.
    Example: actor_rollout_ref.model.use_fused_kernels=True
        actor_rollout_ref.model.fused_kernel_options.impl_backend=triton, a model of hidden size 896 + 64
    Instead: actor_rollout_ref.model.fused_kernel_options.impl_backend=torch
    Source: verl/utils/kernel/kernels.py; verl issue 2656 (fixed by 5349)
    """
    if not run.flag(_FUSED) or run.text(_BACKEND) != "triton":
        return
    shape = run.shape()
    use_torch = f"set {run.name(_BACKEND)}=torch"
    if shape.hidden_size % 128:
        message = f"the triton kernel takes hidden sizes in steps of 128, the model has {shape.hidden_size}"
        yield Verdict("VRL236", (_BACKEND, _FUSED), message, use_torch, fix=Fix("set", _BACKEND, "torch"))
    elif run.version in ("0.5.0", "0.6.1") and shape.vocab_size % 1024:
        message = f"verl {run.version}'s triton kernel is wrong for vocabularies off 1024, such as {shape.vocab_size}"
        yield Verdict("VRL236", (_BACKEND, _FUSED), message, use_torch, fix=Fix("set", _BACKEND, "torch"))


@rule(engines=("dp",))
def logits_leave_room(run: VerlRun) -> Iterator[Verdict]:
    """VRL243: the logits of one micro batch take most of a GPU.

    Why: a row of logits is as long as the vocabulary, and about 7 bytes an entry live at the same time: 32768 tokens of
        a vocabulary of 152064 are 32 GiB. Backward runs out of memory while everything else fits.
    Example: actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536
    Instead: a smaller ppo_max_token_len_per_gpu, or actor_rollout_ref.model.use_fused_kernels=True
    Source: verl's performance guide (docs/perf/perf_tuning.rst); verl issue 2186
    """
    gpu = _gpu(run)
    if gpu is None or not run.has(_TOKENS) or run.flag(_FUSED) or run.flag(_CHUNKED):
        return
    dynamic = run.flag(_DYNAMIC)
    # Sequence parallelism splits a sequence, and a dynamic budget is one GPU's share already.
    shared = 1 if dynamic else sequence_parallel(run, "actor")[1]
    tokens = run.integer(_TOKENS) if dynamic else run.integer(_MICRO) * longest(run) // shared
    if tokens * _LOGIT_BYTES * _LARGEST_VOCABULARY < _SHARE * gpu.memory_gib * _GIB:
        return  # too few for any model, so it need not be known
    vocab = run.shape().vocab_size
    gib = tokens * vocab * _LOGIT_BYTES / _GIB
    if gib > _SHARE * gpu.memory_gib:
        key = _TOKENS if dynamic else _MICRO
        yield Verdict(
            "VRL243",
            (key, _DYNAMIC),
            f"{tokens} tokens × {vocab} logits take {gib:.0f} GiB of the {gpu.memory_gib:.0f} GiB of the {gpu.name}",
            f"lower {run.name(key)}, or set {run.name(_FUSED)}=True",
            "warning",
        )


RULES: tuple[VerlRule, ...] = (
    card_computes_the_dtype,
    dtype_is_read,
    card_has_the_attention,
    fused_kernel_fits_the_model,
    logits_leave_room,
)
