"""Rules about the rollout engine's share of a GPU: a share at all, weights that fit, a cache for one sequence."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._advice import good_values
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import CONTEXT, DP, MODEL, ROLLOUT, TP, longest, shape_at, size
from verlcli.config.verl.rules.memory import BF16, GIB, billions, gpu_gib, params
from verlcli.config.verl.rules.tokens import positions
from verlcli.config.verl.run import VerlRun

_UTIL, _PASSED = f"{ROLLOUT}.gpu_memory_utilization", f"{ROLLOUT}.engine_kwargs.vllm."
# Families whose every layer attends to all tokens; others keep less in the cache.
_FULL_ATTENTION = frozenset(
    {
        "llama",
        "mixtral",
        "qwen2",
        "qwen2_5_vl",
        "qwen2_moe",
        "qwen2_vl",
        "qwen3",
        "qwen3_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
    }
)


def _weights(run: VerlRun) -> tuple[float, int]:
    """GiB of weights on one GPU, and over how many they are split; experts may also spread over data-parallel ranks."""
    ranks = size(run, TP) * (size(run, DP) if shape_at(run).num_experts else 1)
    return params(run) * BF16 / ranks / GIB, ranks


def _is_plain(run: VerlRun) -> bool:
    """Whether vLLM keeps weights and cache in 2 bytes a number."""
    if run.get(f"{ROLLOUT}.name") != "vllm" or run.get(f"{ROLLOUT}.quantization") is not None:
        return False
    changed = ("kv_cache", "quantization", "cpu_offload", "dtype", "hf_overrides", "gpu_memory", "max_model_len")
    passed = (item.key[len(_PASSED) :] for item in run.every_setting() if item.key.startswith(_PASSED))
    return run.get(f"{ROLLOUT}.dtype") in ("bfloat16", "float16", "half", "auto") and not any(
        name.startswith(changed) for name in passed
    )


@rule()
def utilization_is_a_share(run: VerlRun) -> Iterator[Verdict]:
    """VRL214: gpu_memory_utilization is no share that the engine can have.

    Why: it is a fraction of the GPU's memory (vLLM: of all of it; SGLang: of what is free). vLLM refuses to start
        unless that much is free, and its own CUDA context always takes some, so 1.0 cannot be had either.
    Example: actor_rollout_ref.rollout.gpu_memory_utilization=1.7
    Instead: actor_rollout_ref.rollout.gpu_memory_utilization=0.6
    Source: vLLM's CacheConfig; docs/perf/perf_tuning.rst of verl
    """
    share = run.number(_UTIL)
    if share <= 0 or share > 1 or (share == 1 and run.get(f"{ROLLOUT}.name") == "vllm"):
        where = "is not between 0 and 1" if share != 1 else "leaves no memory for CUDA itself"
        yield Verdict("VRL214", (_UTIL,), f"{run.shown(_UTIL)} {where}", "set it to 0.5 to 0.7, or up to 0.85 alone")


@rule()
def weights_fit_the_engine(run: VerlRun) -> Iterator[Verdict]:
    """VRL214: the model's weights alone are larger than the rollout engine's share of a GPU.

    Why: vLLM keeps weights and KV cache within gpu_memory_utilization of the GPU. Weights in bf16 take 2 bytes a
        parameter, divided by tensor parallelism. When they fill the share, the engine stops at its start with "No
        available memory for the cache blocks".
    Example: a model of 72B parameters with tensor_model_parallel_size=2 on GPUs of 80 GB
    Instead: actor_rollout_ref.rollout.tensor_model_parallel_size=8
    Source: docs/perf/perf_tuning.rst of verl
    """
    if not _is_plain(run):
        return
    memory = gpu_gib(run)
    if shape_at(run).quantized is not None:
        return
    (weights, ranks), room = _weights(run), run.number(_UTIL) * memory
    if weights >= room:
        yield Verdict(
            "VRL214",
            (TP, _UTIL, f"{MODEL}.path"),
            f"weights of {billions(params(run))} parameters × 2 bytes / {ranks} GPUs = {weights:.1f} GiB do not fit"
            f" into the engine's {run.number(_UTIL):g} × {memory:.1f} = {room:.1f} GiB",
            f"raise {run.name(TP)} or {run.name(_UTIL)}",
        )


@rule(versions=">=0.7")
def one_sequence_fits_the_cache(run: VerlRun) -> Iterator[Verdict]:
    """VRL211: the KV cache cannot hold one sequence of the engine's context.

    Why: vLLM wants room for one request of max_model_len, which is all of the model's positions when unset, 32k to
        256k tokens. What gpu_memory_utilization leaves after the weights must hold it: 2 bytes for each key and value
        of each layer. Otherwise it stops at its start with "To serve at least one request with the models's max seq
        len".
    Example: a model of 131072 positions on a small GPU, and nothing about max_model_len
    Instead: actor_rollout_ref.rollout.max_model_len=4096: prompt plus response
    Source: vLLM's check_enough_kv_cache_memory; verl issue 2031
    """
    if not _is_plain(run):
        return
    memory, shape = gpu_gib(run), shape_at(run)
    if shape.quantized is not None or shape.model_type not in _FULL_ATTENTION:
        return
    context = positions(run) if run.get(CONTEXT) is None else run.integer(CONTEXT)
    ranks = min(size(run, TP), shape.num_key_value_heads)
    cache, (weights, _) = shape.kv_numbers_per_token * BF16 * context / ranks / GIB, _weights(run)
    room = run.number(_UTIL) * memory - weights
    if 0 < room < cache:
        shorter = good_values(run, "VRL211", CONTEXT, [longest(run)])
        advice = f"set {run.name(CONTEXT)}={shorter[0]} (prompt plus response), or " if shorter else ""
        yield Verdict(
            "VRL211",
            (CONTEXT, _UTIL, TP),
            f"one sequence of {context} tokens takes {cache:.1f} GiB of cache a GPU, and {room:.1f} GiB are left of"
            f" {run.number(_UTIL):g} × {memory:.1f} GiB after the weights",
            f"{advice}raise {run.name(_UTIL)}{'' if shorter else f' or {run.name(TP)}'}",
        )


RULES: tuple[VerlRule, ...] = (utilization_is_a_share, weights_fit_the_engine, one_sequence_fits_the_cache)
