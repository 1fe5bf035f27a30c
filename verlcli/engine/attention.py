"""Causal attention over sequences packed one after another, and its place in Hugging Face models."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.buckets import bucketed_attention

NAME = "verlcli_packed"

Kernel = Callable[..., Tensor]
"""(q[T, H, D], k[T, Hkv, D], v, cu_seqlens, max_length, scale, window) -> [T, H, D]."""

_kernel: Kernel | None = None  # a plain global, so that compiled code guards on its identity alone


class UnsupportedAttentionError(Exception):
    """The model's attention does what the packed one does not; the message says what."""


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    cu_seqlens: Tensor,
    max_length: int,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Causal attention within each of B sequences.

    Args:
        query: `[1, H, T, D]`; `key` and `value` are `[1, Hkv, T, D]`, H a multiple of Hkv.
        cu_seqlens: `[B + 1]` int32, where each sequence starts, and T.
        max_length: of the longest sequence, or more.
        window: the tokens, itself included, that a token sees; None: all before it.

    Returns:
        `[1, T, H, D]`.
    """
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    depth = q.shape[-1]
    if q.device.type == "cuda" and q.dtype in (torch.bfloat16, torch.float16) and depth <= 256 and depth % 8 == 0:
        return (_kernel or choose_kernel())(q, k, v, cu_seqlens, max_length, scale, window)[None]
    out: Tensor = bucketed_attention(q, k, v, cu_seqlens, scale, window)
    return out[None]


def choose_kernel() -> Kernel:
    """The fastest packed kernel that this machine has: FlashAttention 4, 3, 2, or torch's own copy of 2."""
    global _kernel
    if _kernel is None:
        _kernel = _flash_4() or _flash_3() or _flash_2() or _torch_varlen()
    return _kernel


def _imported(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except Exception:  # a package built for another torch fails in many ways
        return None


def _flash_4() -> Kernel | None:
    function = _imported("flash_attn.cute", "flash_attn_varlen_func")
    if function is None or torch.cuda.get_device_capability()[0] < 9:
        return None

    def kernel(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, longest: int, scale: float, window: int | None) -> Tensor:
        sizes = (None, None) if window is None else (window - 1, 0)
        out = function(q, k, v, cu_seqlens_q=cu, cu_seqlens_k=cu, softmax_scale=scale, causal=True, window_size=sizes)
        return _first(out)

    return _uncompiled(kernel)


def _flash_3() -> Kernel | None:
    function = _imported("flash_attn_interface", "flash_attn_varlen_func")
    if function is None or torch.cuda.get_device_capability()[0] != 9:
        return None
    return _uncompiled(partial(_flash, function))


def _uncompiled(kernel: Kernel) -> Kernel:
    """For packages that tell the compiler nothing of their kernels: compiled code stops before them."""
    outside: Kernel = torch.compiler.disable(kernel)
    return outside


def _flash_2() -> Kernel | None:
    function = _imported("flash_attn", "flash_attn_varlen_func")
    return None if function is None else partial(_flash, function)


def _flash(
    function: Any, q: Tensor, k: Tensor, v: Tensor, cu: Tensor, longest: int, scale: float, window: int | None
) -> Tensor:
    """The call that FlashAttention 2 and 3 share."""
    sizes = (-1, -1) if window is None else (window - 1, 0)
    out = function(
        q,
        k,
        v,
        cu_seqlens_q=cu,
        cu_seqlens_k=cu,
        max_seqlen_q=longest,
        max_seqlen_k=longest,
        softmax_scale=scale,
        causal=True,
        window_size=sizes,
    )
    return _first(out)


def _first(out: Any) -> Tensor:
    """Some versions return the log-sum-exp too."""
    found: Tensor = out[0] if isinstance(out, tuple) else out
    return found


def _torch_varlen() -> Kernel:
    from torch.nn.attention import varlen

    varlen_attn: Kernel = varlen.varlen_attn  # type: ignore[assignment]  # a tuple only where it is asked for one
    # torch 2.11 takes fewer key heads as they are, later versions want to be told.
    grouped = {"enable_gqa": True} if "enable_gqa" in inspect.signature(varlen_attn).parameters else {}

    def kernel(q: Tensor, k: Tensor, v: Tensor, cu: Tensor, longest: int, scale: float, window: int | None) -> Tensor:
        sizes = (-1, 0) if window is None else (window - 1, 0)  # (-1, 0) is how this function says causal
        return varlen_attn(q, k, v, cu, cu, longest, longest, scale=scale, window_size=sizes, **grouped)

    return kernel


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function of Hugging Face models; `others` are of no consequence to it."""
    if cu_seq_lens_q is None or max_length_q is None:
        raise UnsupportedAttentionError("the model does not hand the bounds of its sequences to its attention")
    for name, given in (("softcap", softcap), ("s_aux", s_aux), ("position_bias", position_bias)):
        if given is not None:
            raise UnsupportedAttentionError(f"its attention has {name}")
    if not getattr(module, "is_causal", True):
        raise UnsupportedAttentionError("its attention is not causal")
    if attention_mask is not None:
        raise UnsupportedAttentionError("it makes an attention mask of its own")
    if sliding_window is None and _has_window(module):
        raise UnsupportedAttentionError("it does not hand its sliding window to its attention")
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    out = packed_attention(
        query,
        key,
        value,
        cu_seqlens=cu_seq_lens_q,
        max_length=max_length_q,
        scale=scale,
        window=sliding_window,
    )
    return out, None


def _has_window(module: nn.Module) -> bool:
    """Whether every layer of the model has a sliding window; where layers differ, `layer_types` tells them apart."""
    config: Any = getattr(module, "config", None)
    return (
        getattr(config, "sliding_window", None) is not None
        and getattr(config, "use_sliding_window", None) is not False
        and getattr(config, "layer_types", None) is None
    )


@contextmanager
def attention(module: nn.Module, name: str = NAME) -> Iterator[None]:
    """Run `module` and all models inside it with the attention function `name`, and switch back.

    No mask function is registered for `NAME`: transformers then builds no mask.
    """
    from transformers import AttentionInterface

    if name == NAME:
        AttentionInterface.register(NAME, _attend)
        if next(module.parameters()).device.type == "cuda":
            choose_kernel()  # now, not in the middle of a compilation
    before = [(config, config._attn_implementation) for config in _configs(module)]
    for config, _ in before:
        config._attn_implementation = name
    try:
        yield
    finally:
        for config, own in reversed(before):
            config._attn_implementation = own


def _configs(module: nn.Module) -> list[Any]:
    found: dict[int, Any] = {}
    for part in module.modules():
        config: Any = getattr(part, "config", None)
        if hasattr(config, "get_text_config"):
            for each in (config, config.get_text_config()):
                found[id(each)] = each
    return list(found.values())
