"""On a GPU: packed kernels, the fused head's kernels, and a compiled bf16 update against plain fp32 arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from verlcli.config.types import OptimConfig
from verlcli.engine.attention import packed_attention
from verlcli.engine.batch import Batch
from verlcli.engine.buckets import bucketed_attention
from verlcli.engine.training import TorchEngine, policy_forward
from verlcli.engine.training import linear_logprob as plain

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
OPTIM = OptimConfig(1e-4, 0.01, (0.9, 0.999), 1e-8, 1.0, "constant", 0, "fp32")
SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 5000,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("depth", [64, 128])
def test_the_packed_kernel_is_attention_of_each_sequence(window: int | None, depth: int) -> None:
    torch.manual_seed(0)
    bounds = torch.tensor([0, 1, 130, 330, 331, 700], device="cuda", dtype=torch.int32)
    leaves = [torch.randn(1, n, 700, depth, device="cuda", dtype=torch.bfloat16, requires_grad=True) for n in (8, 2, 2)]
    out = packed_attention(*leaves, cu_seqlens=bounds, max_length=512, scale=depth**-0.5, window=window)
    exact = [x.detach().float().requires_grad_() for x in leaves]
    wanted = bucketed_attention(*(x[0].transpose(0, 1) for x in exact), bounds, depth**-0.5, window)[None]
    assert (out.float() - wanted).abs().max() < 2e-2
    upstream = torch.randn_like(wanted)
    got = torch.autograd.grad(out, leaves, upstream.bfloat16())
    for one, two in zip(got, torch.autograd.grad(wanted, exact, upstream), strict=True):
        assert (one.float() - two).norm() / two.norm() < 2e-2


@pytest.mark.parametrize("head", [plain.Head(), plain.Head(0.7, 0.5), plain.Head(1.3, 2.0, 3.0)])
@pytest.mark.parametrize("kept", [0, 10**9])
@pytest.mark.parametrize("vocabulary", [5000, 151936])
def test_the_fused_head_is_that_of_log_softmax(head: plain.Head, kept: int, vocabulary: int) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(300, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = (torch.randn(vocabulary, 256, device="cuda") * 0.1).bfloat16().requires_grad_()
    targets = torch.randint(0, vocabulary, (300,), device="cuda")
    logprobs, entropies = plain.linear_logprob(
        hidden, weight, targets, head=head, entropy_gradient=True, chunk_bytes=128 * 4 * vocabulary, kept_bytes=kept
    )
    assert entropies is not None
    exact = [x.detach().float().requires_grad_() for x in (hidden, weight)]
    z = exact[0] @ exact[1].t() * head.scale
    if head.softcap is not None:
        z = head.softcap * torch.tanh(z / head.softcap)
    log_p = (z / head.temperature).log_softmax(-1)
    wanted = log_p.gather(-1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)
    assert logprobs.allclose(wanted[0], atol=2e-3)
    assert entropies.allclose(wanted[1], atol=2e-3)
    upstream = torch.randn_like(logprobs), torch.randn_like(logprobs)
    got = torch.autograd.grad((logprobs, entropies), (hidden, weight), upstream)
    for one, two in zip(got, torch.autograd.grad(wanted, exact, upstream), strict=True):
        assert (one.float() - two).norm() / two.norm() < 2e-2


def build(dtype: torch.dtype) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**SHAPE)).to("cuda", dtype)


def batch(sequences: int, longest: int, seed: int = 0) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (sequences, 1), generator=draw)
    mask = torch.arange(longest)[None] < lengths
    return Batch(
        input_ids=torch.randint(3, 5000, (sequences, 16 + longest), generator=draw).cuda(),
        attention_mask=torch.cat([torch.ones(sequences, 16, dtype=torch.bool), mask], 1).long().cuda(),
        response_mask=mask.cuda(),
        groups=torch.arange(sequences).cuda(),
        advantages=(torch.randn(sequences, longest, generator=draw) * mask).cuda(),
    )


def loss(out: Any, micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    return -(out[0] * micro.advantages * micro.response_mask).sum() / 1000, {"entropy": out[1].sum()}


@pytest.mark.parametrize("recompute", ["none", "full", "selective", "offload"])
@pytest.mark.parametrize("compiled", [False, True, "auto"])
def test_a_bf16_update_is_close_to_fp32_in_every_mode(recompute: Any, compiled: Any) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    exact, low = build(torch.float32), build(torch.bfloat16)
    reference = TorchEngine(exact, policy_forward(exact, 1.0), optim=OPTIM)
    reference.packed = False
    engine = TorchEngine(
        low, policy_forward(low, 1.0), optim=OPTIM, recompute=recompute, compiled=compiled, tokens=1500
    )
    assert engine.packed
    for seed, longest in enumerate((100, 200, 30)):
        mini = batch(24, longest, seed)
        one = reference.update(reference.plan_micro_batches(mini), loss, lr=1e-4)
        two = engine.update(engine.plan_micro_batches(mini), loss, lr=1e-4)
        assert two.applied
        assert two.loss == pytest.approx(one.loss, abs=2e-2)
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=5e-2)
    assert (engine._layers._fused is None) == bool(compiled)  # "auto" had them for the first update
    if compiled:  # one graph for all layers and lengths
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
        assert not torch._dynamo.utils.counters["graph_break"]


def test_memory_that_does_not_suffice_halves_the_micro_batches() -> None:
    notices: list[str] = []
    module = build(torch.bfloat16)
    engine = TorchEngine(module, policy_forward(module, 1.0), optim=OPTIM, tokens=200_000, on_notice=notices.append)
    mini = batch(512, 400)
    before = torch.cuda.memory_allocated()
    needed = _peak_of(engine, mini) - before
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((before + 0.8 * needed) / total)
    try:
        result = engine.update(engine.plan_micro_batches(mini), loss, lr=1e-4)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert result.applied
    assert len(notices) == 1


def _peak_of(engine: TorchEngine, mini: Batch) -> int:
    engine.update(engine.plan_micro_batches(mini), loss, lr=1e-4)
    torch.cuda.reset_peak_memory_stats()
    engine.update(engine.plan_micro_batches(mini), loss, lr=1e-4)
    return torch.cuda.max_memory_allocated()
