"""Masters in fp32 beside low-precision weights: small updates survive, states go round, fp16 scales its loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from verlcli.config.types import OptimConfig
from verlcli.engine.training.optimizer import FIRST_SCALE, Optimizer

OPTIM = OptimConfig(1e-3, 0.0, (0.9, 0.999), 1e-8, 1.0, "constant", 0, "fp32")


def layer(dtype: torch.dtype) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(6, 4).to(dtype)


def pull(module: nn.Module, optimizer: Optimizer, scale: float = 1.0) -> None:
    """One micro batch's gradients, times the optimizer's loss scale."""
    dtype = next(module.parameters()).dtype
    torch.manual_seed(1)
    (module(torch.randn(3, 6).to(dtype)).float().square().sum() * scale * optimizer.scale).backward()


def test_updates_smaller_than_a_bf16_step_are_not_lost() -> None:
    low, pure = layer(torch.bfloat16), layer(torch.bfloat16)
    with_masters, without = Optimizer(low, OPTIM), Optimizer(pure, replace(OPTIM, master_dtype="bf16"))
    before = low.weight.detach().clone()
    for _ in range(100):
        for module, optimizer in ((low, with_masters), (pure, without)):
            pull(module, optimizer)
            optimizer.clip()
            optimizer.step(lr=2e-5)
            optimizer.clear()
    large = before.abs() > 0.25  # there bf16 has steps of 2^-9 or more, far above one update
    assert large.any()
    assert (low.weight != before)[large].any()
    assert (pure.weight == before)[large].all()
    assert low.weight.dtype == torch.bfloat16


def test_masters_follow_the_same_path_as_fp32_weights() -> None:
    exact, low = layer(torch.float32), layer(torch.bfloat16)
    with torch.no_grad():
        for one, two in zip(exact.parameters(), low.parameters(), strict=True):
            one.copy_(two)
    optimizers = Optimizer(exact, OPTIM), Optimizer(low, OPTIM)
    for _ in range(5):
        for module, optimizer in zip((exact, low), optimizers, strict=True):
            pull(module, optimizer)
            optimizer.clip()
            optimizer.step(lr=1e-2)
            optimizer.clear()
    master = optimizers[1].state()["weight.master"]
    assert master.allclose(exact.weight, atol=2e-3)
    assert low.weight.equal(master.bfloat16())


def test_gradients_of_micro_batches_are_summed_in_fp32() -> None:
    module = layer(torch.bfloat16)
    optimizer = Optimizer(module, OPTIM)
    pull(module, optimizer)
    once = {name: p.grad.clone() for name, p in optimizer._masters.items() if p.grad is not None}
    for _ in range(255):
        pull(module, optimizer)
    for name, p in optimizer._masters.items():
        assert p.grad is not None
        assert p.grad.dtype == torch.float32
        assert p.grad.allclose(256 * once[name], rtol=1e-5)  # in bf16 the sum would stand still at a factor of 256
    assert all(p.grad is None for p in module.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_saved_state_goes_on_bit_for_bit(dtype: torch.dtype) -> None:
    first, second = layer(dtype), layer(dtype)
    one = Optimizer(first, OPTIM)
    one.scale = min(one.scale, 64.0)
    for _ in range(3):
        pull(first, one)
        one.clip()
        one.step(lr=1e-2)
        one.clear()
    second.load_state_dict(first.state_dict())
    two = Optimizer(second, OPTIM)
    two.load({name: value.clone() for name, value in one.state().items()})
    for module, optimizer in ((first, one), (second, two)):
        pull(module, optimizer)
        optimizer.clip()
        optimizer.step(lr=1e-2)
    assert first.weight.equal(second.weight)
    assert one.state().keys() == two.state().keys()
    assert all(value.equal(two.state()[name]) for name, value in one.state().items())


def test_weights_that_somebody_else_wrote_are_taken_over() -> None:
    module = layer(torch.bfloat16)
    optimizer = Optimizer(module, OPTIM)
    with torch.no_grad():
        module.weight.fill_(3.0)
    optimizer.read_weights()
    assert (optimizer.state()["weight.master"] == 3).all()


def test_the_fp16_scale_leaves_gradients_and_norm_as_they_are() -> None:
    low, exact = layer(torch.float16), layer(torch.float32)
    with torch.no_grad():
        for one, two in zip(exact.parameters(), low.parameters(), strict=True):
            one.copy_(two)
    norms: list[Tensor] = []
    for module in (low, exact):
        optimizer = Optimizer(module, replace(OPTIM, clip_grad=1e9))
        optimizer.scale = min(optimizer.scale, 64.0)
        pull(module, optimizer, 1e-3)
        norms.append(optimizer.clip())
    assert norms[0].allclose(norms[1], rtol=1e-2)


def test_an_overflow_lowers_the_scale_and_good_steps_raise_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = layer(torch.float16)
    optimizer = Optimizer(module, OPTIM)
    assert optimizer.scale == FIRST_SCALE
    assert optimizer.lower_scale()
    assert optimizer.scale == FIRST_SCALE / 2
    monkeypatch.setattr("verlcli.engine.training.optimizer.GROWTH_STEPS", 2)
    for _ in range(2):
        pull(module, optimizer, 1e-6)
        optimizer.clip()
        optimizer.step(lr=1e-6)
        optimizer.clear()
    assert optimizer.scale == FIRST_SCALE
    assert not Optimizer(layer(torch.bfloat16), OPTIM).lower_scale()


def test_frozen_parameters_cost_nothing() -> None:
    module = layer(torch.bfloat16)
    module.weight.requires_grad_(False)
    optimizer = Optimizer(module, OPTIM)
    assert optimizer.state().keys() == {"bias.master"}


def test_weights_in_fp16_have_masters_whatever_is_asked_for() -> None:
    module = layer(torch.float16)
    optimizer = Optimizer(module, replace(OPTIM, master_dtype="bf16"))
    before = module.weight.detach().clone()
    pull(module, optimizer, 1e-5)
    optimizer.clip()
    optimizer.step(lr=1e-3)
    assert optimizer.state()["weight.master"].dtype == torch.float32
    assert module.weight.isfinite().all()
    # AdamW's first step is lr long: with moments and eps in fp16 it is not even finite.
    assert (module.weight - before).abs().max() < 2e-3


def test_without_any_gradient_there_is_nothing_to_clip() -> None:
    assert Optimizer(layer(torch.float16), OPTIM).clip() == 0
