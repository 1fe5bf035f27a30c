"""Log-probabilities and entropy of the sampled tokens."""

from __future__ import annotations

import math

import pytest
import torch

from verlcli.engine.algorithms import entropy_of, logprobs_of, tokens


def case(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(3, 5, 11, generator=generator)
    return logits.to(dtype), torch.randint(0, 11, (3, 5), generator=generator)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_logprobs_equal_a_float64_log_softmax(temperature: float) -> None:
    logits, ids = case()
    expected = (logits.double() / temperature).log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)
    torch.testing.assert_close(logprobs_of(logits, ids, temperature=temperature), expected.float())


def test_entropy_equals_its_definition() -> None:
    logits, _ = case()
    distribution = torch.distributions.Categorical(logits=logits.double() / 0.7)
    torch.testing.assert_close(entropy_of(logits, temperature=0.7), distribution.entropy().float())


def test_entropy_of_equal_logits_is_log_of_the_vocabulary() -> None:
    assert entropy_of(torch.zeros(1, 1, 8)).item() == pytest.approx(math.log(8))


def test_bf16_logits_are_computed_in_fp32() -> None:
    logits, ids = case(torch.bfloat16)
    assert logprobs_of(logits, ids).dtype == torch.float32
    torch.testing.assert_close(logprobs_of(logits, ids), logprobs_of(logits.float(), ids))
    assert entropy_of(logits).dtype == torch.float32


def test_extreme_logits_stay_finite() -> None:
    logits = torch.tensor([[[1e4, -1e4, 0.0]]])
    assert logprobs_of(logits, torch.tensor([[1]])).item() == -2e4
    assert entropy_of(logits).item() == 0


@pytest.mark.parametrize("rows", [1, 4, 14])
def test_chunks_change_neither_values_nor_gradients(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, ids = case()

    def run() -> tuple[torch.Tensor, ...]:
        leaf = logits.clone().requires_grad_()
        logprobs, entropy = logprobs_of(leaf, ids), entropy_of(leaf)
        (gradient,) = torch.autograd.grad((logprobs * 2 + entropy).sum(), leaf)
        return logprobs.detach(), entropy.detach(), gradient

    whole = run()
    monkeypatch.setattr(tokens, "CHUNK_ELEMENTS", rows * logits.shape[-1])
    for of_chunks, of_whole in zip(run(), whole, strict=True):
        torch.testing.assert_close(of_chunks, of_whole)


def test_no_tokens_give_no_logprobs() -> None:
    assert logprobs_of(torch.zeros(2, 0, 5), torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0)
