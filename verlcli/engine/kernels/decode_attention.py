"""Attention of the decode step: one query a sequence over its cached keys and values.

Rows of a step name sequences: `rows[B]`. Everything a sequence owns is indexed by its number, so a smaller batch of
survivors needs no copy of the cache. A token's keys and values stand at one place of a pool `[N, Hkv, D]`: a prompt's
at `prompt_start + i`, a response's at `response_start + i`; samples of one prompt share the prompt's.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

KEY_BLOCK = 64
MAX_SPLITS = 16


@triton.jit
def _attention(
    q,
    k_new,
    v_new,
    k_pool,
    v_pool,
    out,
    partial,
    partial_stats,
    rows,
    counts,
    prompt_start,
    prompt_len,
    response_start,
    scale,
    splits,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    HEADS_KV: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    D: tl.constexpr,
    D_PAD: tl.constexpr,
    BLOCK: tl.constexpr,
    SPLIT: tl.constexpr,
    PRECISION: tl.constexpr,
):
    b, h, s = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    sequence = tl.load(rows + b)
    first = tl.load(prompt_len + sequence)
    count = tl.load(counts + sequence)
    cached = first + count - 1
    prompt_at = tl.load(prompt_start + sequence)
    response_at = tl.load(response_start + sequence)
    g = tl.arange(0, GROUP_PAD)
    d = tl.arange(0, D_PAD)
    on_g, on_d = g < GROUP, d < D
    tile = b * q_row + (h * GROUP + g)[:, None] * q_head + d[None, :]
    query = tl.load(q + tile, mask=on_g[:, None] & on_d[None, :], other=0.0)
    highest = tl.full([GROUP_PAD], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    acc = tl.zeros([GROUP_PAD, D_PAD], tl.float32)
    share = tl.cdiv(tl.cdiv(cached, splits), BLOCK) * BLOCK
    low = s * share
    high = tl.minimum(cached, low + share)
    for start in range(low, high, BLOCK):
        i = start + tl.arange(0, BLOCK)
        on = i < high
        at = tl.where(i < first, prompt_at + i, response_at + i - first)
        place = (at * HEADS_KV + h)[:, None] * D + d[None, :]
        inside = on[:, None] & on_d[None, :]
        key = tl.load(k_pool + place, mask=inside, other=0.0)
        value = tl.load(v_pool + place, mask=inside, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        score = tl.where(on[None, :], score, float("-inf"))
        peak = tl.maximum(highest, tl.max(score, 1))
        weight = tl.exp(score - peak[:, None])
        fade = tl.exp(highest - peak)
        total = total * fade + tl.sum(weight, 1)
        acc = acc * fade[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        highest = peak
    if s == splits - 1:
        # The token of this step: attended from its registers, and written where later steps will read it.
        key = tl.load(k_new + b * k_row + h * k_head + d, mask=on_d, other=0.0)
        value = tl.load(v_new + b * v_row + h * v_head + d, mask=on_d, other=0.0)
        place = ((response_at + count - 1) * HEADS_KV + h) * D + d
        tl.store(k_pool + place, key, mask=on_d)
        tl.store(v_pool + place, value, mask=on_d)
        score = tl.sum(query.to(tl.float32) * key.to(tl.float32)[None, :], 1) * scale
        peak = tl.maximum(highest, score)
        weight = tl.exp(score - peak)
        fade = tl.exp(highest - peak)
        total = total * fade + weight
        acc = acc * fade[:, None] + weight[:, None] * value.to(tl.float32)[None, :]
        highest = peak
    head = h * GROUP + g
    heads: tl.constexpr = HEADS_KV * GROUP
    if SPLIT:
        row = (b * heads + head) * splits + s
        tl.store(partial + row[:, None] * D + d[None, :], acc, mask=on_g[:, None] & on_d[None, :])
        tl.store(partial_stats + row * 2, highest, mask=on_g)
        tl.store(partial_stats + row * 2 + 1, total, mask=on_g)
    else:
        place = (b * heads + head)[:, None] * D + d[None, :]
        result = acc / total[:, None]
        tl.store(out + place, result.to(out.dtype.element_ty), mask=on_g[:, None] & on_d[None, :])


@triton.jit
def _combine(partial, partial_stats, out, splits, D: tl.constexpr, D_PAD: tl.constexpr, SPLITS_PAD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SPLITS_PAD)
    d = tl.arange(0, D_PAD)
    on_s, on_d = s < splits, d < D
    highest = tl.load(partial_stats + (row * splits + s) * 2, mask=on_s, other=float("-inf"))
    total = tl.load(partial_stats + (row * splits + s) * 2 + 1, mask=on_s, other=0.0)
    weight = tl.exp(highest - tl.max(highest, 0))
    tile = (row * splits + s)[:, None] * D + d[None, :]
    part = tl.load(partial + tile, mask=on_s[:, None] & on_d[None, :], other=0.0)
    result = tl.sum(part * weight[:, None], 0) / tl.sum(total * weight, 0)
    tl.store(out + row * D + d, result.to(out.dtype.element_ty), mask=on_d)


def splits_for(batch: int, heads_kv: int, processors: int) -> int:
    """Into how many parts a sequence's keys are cut, so that a small batch fills the GPU."""
    return max(1, min(MAX_SPLITS, 4 * processors // (batch * heads_kv)))


def attend(
    query: Tensor, key: Tensor, value: Tensor, k_pool: Tensor, v_pool: Tensor, state: Any, *, scale: float, splits: int
) -> Tensor:
    """One token's attention over its sequence's cache, to which its key and value are added.

    `query[B, H, 1, D]`, `key`, `value` `[B, Hkv, 1, D]`, pools `[N, Hkv, D]` -> `[B, 1, H, D]`. `state` holds the
    tensors `rows`, `counts`, `prompt_start`, `prompt_len`, `response_start` (see the module).
    """
    batch, heads, _, width = query.shape
    heads_kv = key.shape[1]
    group, padded = heads // heads_kv, triton.next_power_of_2(width)
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    out = torch.empty((batch, 1, heads, width), dtype=query.dtype, device=query.device)
    partial = stats = out
    if splits > 1:
        partial = torch.empty((batch, heads, splits, width), dtype=torch.float32, device=query.device)
        stats = torch.empty((batch, heads, splits, 2), dtype=torch.float32, device=query.device)
    _attention[(batch, heads_kv, splits)](
        query,
        key,
        value,
        k_pool,
        v_pool,
        out,
        partial,
        stats,
        state.rows,
        state.counts,
        state.prompt_start,
        state.prompt_len,
        state.response_start,
        scale,
        splits,
        query.stride(0),
        query.stride(1),
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        HEADS_KV=heads_kv,
        GROUP=group,
        GROUP_PAD=max(16, triton.next_power_of_2(group)),
        D=width,
        D_PAD=padded,
        BLOCK=KEY_BLOCK,
        SPLIT=splits > 1,
        PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
        num_warps=4,
        num_stages=3,
    )
    if splits > 1:
        _combine[(batch * heads,)](
            partial, stats, out, splits, D=width, D_PAD=padded, SPLITS_PAD=triton.next_power_of_2(splits), num_warps=2
        )
    return out
