"""Sampling of the decode step and the inputs of the next: tokens are drawn, judged and accounted for on the GPU."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

VOCAB_BLOCK = 4096


@triton.jit
def _inputs(rows, counts, prompt_len, out_tokens, tokens, positions, width):
    b = tl.program_id(0)
    sequence = tl.load(rows + b).to(tl.int64)
    count = tl.load(counts + sequence)
    tl.store(tokens + b, tl.load(out_tokens + sequence * width + count - 1).to(tl.int64))
    tl.store(positions + b, (tl.load(prompt_len + sequence) + count - 1).to(tl.int64))


@triton.jit
def _scores(logits, source, counts, rows, b, i, vocab, inverse, min_tokens, eos, N_EOS: tl.constexpr):
    """Scaled logits of row b at the indices i; end tokens are out of reach before `min_tokens`."""
    on = i < vocab
    at = tl.load(source + b).to(tl.int64) * vocab
    z = tl.load(logits + at + i, mask=on, other=float("-inf")).to(tl.float32) * inverse
    if tl.load(counts + tl.load(rows + b)) < min_tokens:
        for e in tl.static_range(N_EOS):
            z = tl.where(i == tl.load(eos + e), float("-inf"), z)
    return z


@triton.jit
def _sample_blocks(
    logits,
    source,
    rows,
    counts,
    floats,
    integers,
    eos,
    block_max,
    block_sum,
    block_arg,
    vocab,
    blocks,
    N_EOS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    b, n = tl.program_id(0), tl.program_id(1)
    i = n * BLOCK + tl.arange(0, BLOCK)
    inverse, min_tokens = tl.load(floats), tl.load(integers + 1)
    z = _scores(logits, source, counts, rows, b, i, vocab, inverse, min_tokens, eos, N_EOS)
    peak = tl.max(z, 0)
    weight = tl.where(z > float("-inf"), tl.exp(z - peak), 0.0)
    tl.store(block_max + b * blocks + n, peak)
    tl.store(block_sum + b * blocks + n, tl.sum(weight, 0))
    tl.store(block_arg + b * blocks + n, n * BLOCK + tl.argmax(z, 0))


@triton.jit
def _mix(x):
    """The finalizer of splitmix64 on a signed 64-bit integer; shifts are logical."""
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


@triton.jit
def _uniform(x):
    """In (0, 1), from the upper 24 bits."""
    return ((x >> 40) & 0xFFFFFF).to(tl.float32) * 5.9604644775390625e-08 + 2.98023223876953125e-08


@triton.jit
def _sample_rows(
    logits,
    source,
    rows,
    counts,
    done,
    limits,
    floats,
    integers,
    eos,
    block_max,
    block_sum,
    block_arg,
    out_tokens,
    out_logprobs,
    width,
    vocab,
    blocks,
    N_EOS: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS_PAD: tl.constexpr,
):
    b = tl.program_id(0)
    sequence = tl.load(rows + b).to(tl.int64)
    if tl.load(done + sequence) == 0:
        count = tl.load(counts + sequence)
        inverse, greedy = tl.load(floats), tl.load(floats + 1)
        seed, min_tokens, first_id = tl.load(integers), tl.load(integers + 1), tl.load(integers + 2)
        n = tl.arange(0, BLOCKS_PAD)
        peaks = tl.load(block_max + b * blocks + n, mask=n < blocks, other=float("-inf"))
        sums = tl.load(block_sum + b * blocks + n, mask=n < blocks, other=0.0)
        peak = tl.max(peaks, 0)
        mass = tl.where(peaks > float("-inf"), sums * tl.exp(peaks - peak), 0.0)
        total = tl.sum(mass, 0)
        key = _mix(_mix(_mix(seed ^ (sequence + first_id)) ^ count.to(tl.int64)))
        # First the block, then the token inside it, each from its own number: small probabilities keep their precision.
        reached = tl.cumsum(mass, 0)
        chosen = tl.sum((reached <= _uniform(key) * total).to(tl.int32), 0)
        last = tl.max(tl.where(mass > 0, n, 0), 0)
        chosen = tl.minimum(chosen, last)
        i = chosen * BLOCK + tl.arange(0, BLOCK)
        z = _scores(logits, source, counts, rows, b, i, vocab, inverse, min_tokens, eos, N_EOS)
        weight = tl.where(z > float("-inf"), tl.exp(z - tl.max(z, 0)), 0.0)
        inner = tl.cumsum(weight, 0)
        pick = tl.sum((inner <= _uniform(_mix(key)) * tl.sum(weight, 0)).to(tl.int32), 0)
        pick = tl.minimum(pick, tl.max(tl.where(weight > 0, tl.arange(0, BLOCK), 0), 0))
        token = chosen * BLOCK + pick
        if greedy > 0:
            best = tl.argmax(peaks, 0)
            token = tl.load(block_arg + b * blocks + best)
        at = tl.load(source + b).to(tl.int64) * vocab
        logprob = tl.load(logits + at + token).to(tl.float32) * inverse - peak - tl.log(total)
        ends = (count + 1 >= tl.load(limits + sequence)).to(tl.int32)
        for e in tl.static_range(N_EOS):
            ends = tl.maximum(ends, (token == tl.load(eos + e)).to(tl.int32))
        tl.store(out_tokens + sequence * width + count, token.to(tl.int32))
        tl.store(out_logprobs + sequence * width + count, logprob)
        tl.store(counts + sequence, count + 1)
        tl.store(done + sequence, ends)


def next_inputs(state: Any, tokens: Tensor, positions: Tensor) -> None:
    """Fill `tokens[B]`, `positions[B]` with the last token of each row's sequence and its position."""
    _inputs[(tokens.shape[0],)](
        state.rows, state.counts, state.prompt_len, state.out_tokens, tokens, positions, state.out_tokens.stride(0)
    )


def sample(logits: Tensor, source: Tensor, state: Any) -> None:
    """Draw the next token of each row that is not done, from row `source[b]` of `logits[M, V]`, and account for it.

    Two passes: sums of blocks of the vocabulary, then one block and a token in it. The noise of a token is a function
    of (seed, sequence, index of the token) alone, so batching does not change what is drawn. `state.floats` holds
    1 / temperature and whether to be greedy; `state.integers` the seed, min_tokens and the first sequence's number.
    """
    rows, vocab = source.shape[0], logits.shape[-1]
    blocks = triton.cdiv(vocab, VOCAB_BLOCK)
    block_max = torch.empty((rows, blocks), dtype=torch.float32, device=logits.device)
    block_sum, block_arg = torch.empty_like(block_max), torch.empty_like(block_max, dtype=torch.int32)
    ends = state.eos.shape[0]
    _sample_blocks[(rows, blocks)](
        logits,
        source,
        state.rows,
        state.counts,
        state.floats,
        state.integers,
        state.eos,
        block_max,
        block_sum,
        block_arg,
        vocab,
        blocks,
        N_EOS=ends,
        BLOCK=VOCAB_BLOCK,
        num_warps=8,
    )
    _sample_rows[(rows,)](
        logits,
        source,
        state.rows,
        state.counts,
        state.done,
        state.limits,
        state.floats,
        state.integers,
        state.eos,
        block_max,
        block_sum,
        block_arg,
        state.out_tokens,
        state.out_logprobs,
        state.out_tokens.stride(0),
        vocab,
        blocks,
        N_EOS=ends,
        BLOCK=VOCAB_BLOCK,
        BLOCKS_PAD=triton.next_power_of_2(blocks),
        num_warps=8,
    )
