"""The torch training engine: exact log-probs, split invariance, skipped updates, saved state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from verlcli.config.types import OptimConfig
from verlcli.engine.algorithms import Totals
from verlcli.engine.batch import Batch, left_pad
from verlcli.engine.training import TorchEngine, policy_forward

OPTIM = OptimConfig(1e-3, 0.01, (0.9, 0.999), 1e-8, 1.0, "constant", 0)


def load(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def engine(folder: Path, optim: OptimConfig = OPTIM, **kwargs: Any) -> TorchEngine:
    module = load(folder)
    return TorchEngine(module, policy_forward(module, 1.0), optim=optim, **kwargs)


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(4, 19, (n,), generator=generator).tolist() for n in (3, 7, 5, 2, 6, 4)]
    ids, mask = left_pad(prompts, 0, torch.device("cpu"))
    lengths = torch.tensor([5, 1, 3, 4, 2, 5])
    response_mask = torch.arange(5)[None] < lengths[:, None]
    responses = torch.randint(4, 19, (6, 5), generator=generator) * response_mask
    return Batch(
        input_ids=torch.cat([ids, responses], 1),
        attention_mask=torch.cat([mask, response_mask.long()], 1),
        response_mask=response_mask,
        groups=torch.arange(6) // 2,
        advantages=torch.randn(6, 5, generator=generator) * response_mask,
    )


def loss_for(totals: Totals) -> Any:
    def loss(out: tuple[Tensor, Tensor], micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        assert micro.advantages is not None
        value = -(out[0] * micro.advantages * micro.response_mask).sum() / totals.tokens
        return value, {"count": micro.response_mask.sum()}

    return loss


def test_logprobs_equal_a_forward_pass_of_each_row_alone(tiny_model: Path, batch: Batch) -> None:
    trainer = engine(tiny_model)
    logprobs = trainer.infer(batch.split(4), width=5)
    for i in range(6):
        n = int(batch.response_mask[i].sum())
        row = batch.input_ids[i][batch.attention_mask[i].bool()][None]
        with torch.no_grad():
            wanted = trainer.module(row).logits[0].log_softmax(-1)[-n - 1 : -1].gather(-1, row[0, -n:, None])[:, 0]
        assert logprobs[i, :n].allclose(wanted, atol=1e-5)
        assert (logprobs[i, n:] == 0).all()


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("recompute", [False, True])
def test_updates_do_not_depend_on_the_micro_batch_size(
    tiny_model: Path, batch: Batch, size: int, recompute: bool
) -> None:
    totals = Totals.of(batch.response_mask)
    large_eps = replace(OPTIM, eps=1.0, weight_decay=0.0)
    whole, split = engine(tiny_model, optim=large_eps), engine(tiny_model, optim=large_eps, recompute=recompute)
    before = {name: value.clone() for name, value in whole.state_dict().items()}
    one = whole.update([batch], loss_for(totals), lr=1e-2)
    two = split.update(batch.split(size), loss_for(totals), lr=1e-2)
    assert two.loss == pytest.approx(one.loss, abs=1e-6)
    assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    assert one.stats == two.stats == {"count": 20.0}
    # With so large an eps Adam's step is proportional to the gradient, so this compares gradients.
    for name, value in whole.state_dict().items():
        assert value.allclose(split.state_dict()[name], atol=1e-7), name
        assert not value.equal(before[name]), name


@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_an_update_that_is_not_finite_changes_nothing(tiny_model: Path, batch: Batch, poison: str) -> None:
    trainer = engine(tiny_model)
    before = {name: value.clone() for name, value in trainer.state_dict().items()}

    def loss(out: tuple[Tensor, Tensor], micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if poison == "loss":
            return out[0].sum() * float("nan"), {}
        return (out[0] * 0).sum().sqrt(), {}  # finite, with an infinite gradient

    result = trainer.update([batch], loss, lr=1e-3)
    assert not result.applied
    assert all(value.equal(before[name]) for name, value in trainer.state_dict().items())
    assert trainer.optimizer_state() == {}
    assert all(p.grad is None for p in trainer.module.parameters())


def test_state_goes_round_and_training_continues_bit_for_bit(tiny_model: Path, batch: Batch) -> None:
    totals = Totals.of(batch.response_mask)
    first, second = engine(tiny_model), engine(tiny_model)
    first.update([batch], loss_for(totals), lr=1e-3)
    second.load_state_dict({k: v.clone() for k, v in first.state_dict().items()})
    second.load_optimizer_state({k: v.clone() for k, v in first.optimizer_state().items()})
    for trainer in (first, second):
        trainer.update([batch], loss_for(totals), lr=5e-4)
    assert all(value.equal(second.state_dict()[name]) for name, value in first.state_dict().items())
    with pytest.raises(ValueError, match="parameters differ"):
        first.load_state_dict({})


def test_sharding_info_tells_where_the_weights_are(tiny_model: Path) -> None:
    info = engine(tiny_model).get_sharding_info()
    assert (info.world_size, info.device_map, info.placement, info.last_transition_bytes) == (
        1,
        ("cpu",),
        "replicated",
        0,
    )
    assert info.bytes_per_rank == 4 * info.parameters
    assert info.parameters == info.trainable_parameters > 50_000
    assert "training: torch, 1 rank(s) on cpu" in str(info)


def test_dropout_is_off_in_the_policy_that_trains(tmp_path: Path, batch: Batch) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    module = GPT2LMHeadModel(GPT2Config(vocab_size=19, n_embd=32, n_layer=2, n_head=2, n_positions=64))
    trainer = TorchEngine(module, policy_forward(module, 1.0), optim=OPTIM)
    module.train()
    with torch.no_grad():
        one, two = (trainer._forward(batch)[0] for _ in range(2))
    assert one.equal(two)
