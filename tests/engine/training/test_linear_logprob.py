"""The fused head against log_softmax: values, gradients of any upstream gradient, chunks, kept probabilities."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from verlcli.engine.training import linear_logprob as module
from verlcli.engine.training.linear_logprob import Head, linear_logprob

TOKENS, HIDDEN, VOCABULARY = 13, 5, 11
HEADS = [Head(), Head(0.7, 0.5), Head(1.3, 2.0, 3.0)]
ALL, NONE = 10**9, 0
THREE_TOKENS = 4 * VOCABULARY * 3  # bytes of fp32 logits


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(TOKENS, HIDDEN, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCABULARY, HIDDEN, dtype=dtype, requires_grad=True)
    bias = torch.randn(VOCABULARY, dtype=dtype, requires_grad=True)
    return hidden, weight, bias, torch.randint(0, VOCABULARY, (TOKENS,))


def by_definition(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, head: Head
) -> tuple[Tensor, Tensor]:
    z = hidden @ weight.t() if bias is None else hidden @ weight.t() + bias
    z = z * head.scale
    if head.softcap is not None:
        z = head.softcap * torch.tanh(z / head.softcap)
    log_p = (z / head.temperature).log_softmax(-1)
    return log_p.gather(-1, targets[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kept", [NONE, 8 * VOCABULARY * 7, ALL])
@pytest.mark.parametrize("chunk", [THREE_TOKENS, ALL])
@pytest.mark.parametrize("with_bias", [True, False])
def test_values_and_gradients_are_those_of_log_softmax(head: Head, kept: int, chunk: int, with_bias: bool) -> None:
    hidden, weight, bias, targets = inputs(torch.float64)
    given = (hidden, weight, bias) if with_bias else (hidden, weight)

    def fused(*args: Tensor) -> tuple[Tensor, Tensor]:
        logprobs, entropies = linear_logprob(
            args[0],
            args[1],
            targets,
            bias=args[2] if with_bias else None,
            head=head,
            entropy_gradient=True,
            chunk_bytes=chunk,
            kept_bytes=kept,
        )
        assert entropies is not None
        return logprobs, entropies

    wanted = by_definition(hidden, weight, bias if with_bias else None, targets, head)
    for one, two in zip(fused(*given), wanted, strict=True):
        assert one.allclose(two, atol=1e-9)
    assert torch.autograd.gradcheck(fused, given)


def test_an_entropy_without_gradient_changes_no_gradient() -> None:
    hidden, weight, _, targets = inputs(torch.float64)
    logprobs, entropies = linear_logprob(hidden, weight, targets)
    assert entropies is not None
    assert not entropies.requires_grad
    (one,) = torch.autograd.grad(logprobs.sin().sum(), hidden)
    (two,) = torch.autograd.grad(by_definition(hidden, weight, None, targets, Head())[0].sin().sum(), hidden)
    assert one.allclose(two, atol=1e-12)


def test_nothing_to_predict_is_no_error_and_no_gradient() -> None:
    hidden, weight, _, targets = inputs(torch.float32)
    logprobs, _ = linear_logprob(hidden[:0], weight, targets[:0])
    logprobs.sum().backward()
    assert weight.grad is not None
    assert weight.grad.abs().sum() == 0


def test_a_frozen_head_gets_no_gradient() -> None:
    hidden, weight, _, targets = inputs(torch.float32)
    logprobs, _ = linear_logprob(hidden, weight.detach(), targets)
    logprobs.sum().backward()
    assert hidden.grad is not None


def test_half_precision_operands_give_full_precision_logits() -> None:
    hidden, weight, _, targets = inputs(torch.float32)
    low = (hidden.detach().bfloat16(), weight.detach().bfloat16())
    logprobs, _ = linear_logprob(*low, targets)
    wanted, _ = by_definition(low[0].float(), low[1].float(), None, targets, Head())
    assert logprobs.dtype == torch.float32
    assert logprobs.allclose(wanted, atol=1e-6)


@pytest.mark.parametrize("confidence", [0.9, 0.99, 0.999, 0.9999])
@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_confident_tokens_keep_their_gradient_in_low_precision(confidence: float, entropy_gradient: bool) -> None:
    """The bias's gradient is that of the logits: of the target, -(1 - p), though bf16 has no number between p and 1."""
    logits = torch.zeros(VOCABULARY, dtype=torch.float64)
    logits[4] = math.log(confidence / (1 - confidence) * (VOCABULARY - 1))
    gradients = []
    for kept in (ALL, NONE):
        bias = logits.to(torch.float32).requires_grad_()
        hidden, weight = torch.zeros(1, 2, dtype=torch.bfloat16), torch.zeros(VOCABULARY, 2, dtype=torch.bfloat16)
        logprobs, entropies = linear_logprob(
            hidden, weight, torch.tensor([4]), bias=bias, entropy_gradient=entropy_gradient, kept_bytes=kept
        )
        assert entropies is not None
        (logprobs.sum() + (entropies.sum() if entropy_gradient else 0)).backward()
        gradients.append(bias.grad)
    exact = logits.requires_grad_()
    log_p = exact.log_softmax(-1)
    (log_p[4] - ((log_p.exp() * log_p).sum() if entropy_gradient else 0)).backward()
    for gradient in gradients:
        torch.testing.assert_close(gradient.double(), exact.grad, rtol=2**-6, atol=1e-6)


def test_passes_without_gradients_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    plain = module._probabilities
    monkeypatch.setattr(module, "_probabilities", lambda logits, *rest: (kept.append(1), plain(logits, *rest))[1])
    hidden, weight, _, targets = inputs(torch.float32)
    with torch.no_grad():
        linear_logprob(hidden, weight, targets, kept_bytes=ALL)
    assert not kept
    linear_logprob(hidden, weight, targets, kept_bytes=ALL)
    assert kept


_INTERPRETED = """
import torch
from verlcli.engine.kernels import logprob as kernels
from verlcli.engine.training import linear_logprob as plain
kernels.BLOCK = 64
torch.manual_seed(0)
x, t = torch.randn(7, 201) * 4, torch.randint(0, 201, (7,))
x[2, 5] = float("-inf")
for head in (plain.Head(), plain.Head(0.7, 0.5), plain.Head(1.3, 2.0, 3.0)):
    wanted = plain._statistics(x, t, head, entropy=True)
    assert kernels.statistics(x, t, head).allclose(wanted, atol=2e-5)
    _, lse, entropies = wanted
    for upstream in ((torch.randn(7), None), (torch.randn(7), torch.randn(7))):
        d = plain._gradient(x, t, lse, entropies, upstream, head, torch.float32)
        got = kernels.gradient(x, t, lse, entropies, upstream, head, torch.float32)
        assert got.allclose(d, atol=1e-5), (got - d).abs().max()
        if head.softcap is None:
            p = kernels.probabilities(x, lse, head, torch.float32)
            assert kernels.gradient_of_kept(p, t, wanted[0], entropies, upstream, head).allclose(d, atol=1e-5)
            p = kernels.probabilities(x, lse, head, torch.float32).scatter_(-1, t[:, None], 1.0)
            again = kernels.gradient_of_kept(p, t, wanted[0], entropies, upstream, head)  # the target's is not read
            assert again.allclose(d, atol=1e-5)
"""


@pytest.mark.slow
def test_the_triton_kernels_compute_the_same() -> None:
    pytest.importorskip("triton")
    root = Path(__file__).parents[3]
    path = os.pathsep.join(p for p in (str(root), os.environ.get("PYTHONPATH", "")) if p)
    subprocess.run(
        [sys.executable, "-c", _INTERPRETED], check=True, env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path}
    )
