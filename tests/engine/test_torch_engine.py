"""The torch training engine: exact log-probs, split invariance, skipped updates, saved state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from verlcli.config.types import OptimConfig
from verlcli.engine.algorithms import Totals
from verlcli.engine.batch import Batch, left_pad
from verlcli.engine.training import TorchEngine, blocks, layers, policy_forward
from verlcli.errors import DoesNotFitError

OPTIM = OptimConfig(1e-3, 0.01, (0.9, 0.999), 1e-8, 1.0, "constant", 0, "fp32")


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
@pytest.mark.parametrize("recompute", ["none", "full", "selective", "offload"])
@pytest.mark.parametrize("packed", [False, True])
def test_updates_do_not_depend_on_micro_batches_packing_or_recomputation(
    tiny_model: Path, batch: Batch, size: int, recompute: str, packed: bool
) -> None:
    totals = Totals.of(batch.response_mask)
    large_eps = replace(OPTIM, eps=1.0, weight_decay=0.0)
    whole, split = engine(tiny_model, optim=large_eps), engine(tiny_model, optim=large_eps, recompute=recompute)
    whole.packed, split.packed = False, packed
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
        one, two = (trainer._forward(batch, None)[0] for _ in range(2))
    assert one.equal(two)


def test_micro_batches_by_tokens_give_the_same_update_and_the_rows_in_order(tiny_model: Path, batch: Batch) -> None:
    totals = Totals.of(batch.response_mask)
    whole, by_tokens = engine(tiny_model), engine(tiny_model, tokens=14)
    parts = by_tokens.plan_micro_batches(batch)
    assert len(parts) == 5
    assert max(int(p.attention_mask.sum()) for p in parts) <= 14
    assert by_tokens.infer(parts, width=5).allclose(whole.infer([batch], width=5), atol=1e-5)
    one, two = (e.update(p, loss_for(totals), lr=1e-3) for e, p in ((whole, [batch]), (by_tokens, parts)))
    assert two.loss == pytest.approx(one.loss, abs=1e-6)
    assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)


def test_a_model_that_cannot_run_packed_trains_padded_and_says_so(tiny_model: Path, batch: Batch) -> None:
    notices: list[str] = []
    module = load(tiny_model)

    def forward(batch: Batch, packed: Any = None) -> Any:
        if packed is not None:
            raise ValueError("no such thing here")
        return policy_forward(module, 1.0)(batch, None)

    trainer = TorchEngine(module, forward, optim=OPTIM, tokens=14, sequences=4, on_notice=notices.append)
    assert not trainer.packed
    assert notices == ["this model trains on padded batches, more slowly than on packed ones: no such thing here"]
    assert [len(p) for p in trainer.plan_micro_batches(batch)] == [4, 2]
    assert trainer.update(trainer.plan_micro_batches(batch), loss_for(Totals.of(batch.response_mask)), lr=1e-3).applied


class SmallMemory:
    """A forward pass for which memory suffices up to so many sequences."""

    def __init__(self, module: Any, most: int) -> None:
        self.plain, self.most, self.calls = policy_forward(module, 1.0), most, list[int]()

    def __call__(self, batch: Batch, packed: Any = None) -> Any:
        self.calls.append(len(batch))
        if len(batch) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return self.plain(batch, packed)


def small(folder: Path, most: int, **kwargs: Any) -> tuple[TorchEngine, SmallMemory, list[str]]:
    notices: list[str] = []
    module = load(folder)
    forward = SmallMemory(module, 99)
    trainer = TorchEngine(module, forward, optim=OPTIM, tokens=1000, sequences=4, on_notice=notices.append, **kwargs)
    forward.most = most
    forward.calls.clear()
    return trainer, forward, notices


def test_out_of_memory_repeats_the_step_with_halves_and_the_same_result(tiny_model: Path, batch: Batch) -> None:
    totals = Totals.of(batch.response_mask)
    wanted = engine(tiny_model)
    trainer, forward, notices = small(tiny_model, 2)
    one = wanted.update([batch], loss_for(totals), lr=1e-3)
    # The first micro batch goes well: its gradients must not count twice.
    two = trainer.update([*batch.split(2)[:1], batch.rows(2, 6)], loss_for(totals), lr=1e-3)
    assert forward.calls == [2, 4, 1, 1, 2, 2]
    assert two.loss == pytest.approx(one.loss, abs=1e-6)
    assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    assert len(notices) == 1
    assert "half as large from here on" in notices[0]
    assert "Tried to allocate 2.00 GiB" in notices[0]
    assert trainer._tokens == 500


def test_out_of_memory_is_met_in_passes_without_gradients_too(tiny_model: Path, batch: Batch) -> None:
    trainer, forward, notices = small(tiny_model, 3)
    assert trainer.infer([batch], width=5).allclose(engine(tiny_model).infer([batch], width=5), atol=1e-6)
    assert forward.calls == [6, 3, 3]
    assert len(notices) == 1


@pytest.mark.parametrize(("size", "calls", "wanted"), [(6, [6, 3], "half the size too"), (1, [1], "one sequence")])
def test_out_of_memory_twice_ends_the_run_with_what_to_lower(
    tiny_model: Path, batch: Batch, size: int, calls: list[int], wanted: str
) -> None:
    trainer, forward, _ = small(tiny_model, 0)
    before = {name: value.clone() for name, value in trainer.state_dict().items()}
    with pytest.raises(DoesNotFitError, match=wanted) as caught:
        trainer.update(batch.split(size), loss_for(Totals.of(batch.response_mask)), lr=1e-3)
    assert "training.max_token_len_per_gpu" in str(caught.value.fix)
    assert forward.calls == calls
    assert all(value.equal(before[name]) for name, value in trainer.state_dict().items())
    assert all(p.grad is None for p in trainer.module.parameters())


def test_an_fp16_overflow_repeats_the_update_with_a_smaller_scale(tiny_model: Path, batch: Batch) -> None:
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float16).eval()
    trainer = TorchEngine(module, policy_forward(module, 1.0), optim=OPTIM)
    assert trainer.optimizer is not None
    trainer.optimizer.scale = 2.0**40
    result = trainer.update([batch], loss_for(Totals.of(batch.response_mask)), lr=1e-3)
    exact = engine(tiny_model).update([batch], loss_for(Totals.of(batch.response_mask)), lr=1e-3)
    assert result.applied
    assert 1 <= trainer.optimizer.scale < 2.0**40
    assert result.grad_norm == pytest.approx(exact.grad_norm, rel=0.05)


def test_an_fp16_step_that_no_scale_mends_leaves_the_scale(tiny_model: Path, batch: Batch) -> None:
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float16).eval()
    trainer = TorchEngine(module, policy_forward(module, 1.0), optim=OPTIM)
    assert trainer.optimizer is not None
    trainer.optimizer.scale = 8.0

    def loss(out: tuple[Tensor, Tensor], micro: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        return (out[0] * 0).sum().sqrt(), {}  # finite, with a gradient that is not

    assert not trainer.update([batch], loss, lr=1e-3).applied
    assert trainer.optimizer.scale == 8.0


def test_out_of_memory_in_fp16_is_met_once_though_the_scale_is_lowered(tiny_model: Path, batch: Batch) -> None:
    from transformers import AutoModelForCausalLM

    module = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float16).eval()
    forward = SmallMemory(module, 99)
    trainer = TorchEngine(module, forward, optim=OPTIM, sequences=6, on_notice=lambda notice: None)
    assert trainer.optimizer is not None
    trainer.optimizer.scale = 2.0**40
    forward.most = 3
    forward.calls.clear()
    assert trainer.update([batch], loss_for(Totals.of(batch.response_mask)), lr=1e-3).applied
    assert len(forward.calls) > 3
    assert forward.calls.count(6) == 1


def test_adapters_train_packed_as_padded_and_nothing_else_does(tiny_model: Path, batch: Batch) -> None:
    from peft import LoraConfig, get_peft_model

    totals = Totals.of(batch.response_mask)
    results = []
    for packed in (True, False):
        torch.manual_seed(0)
        adapter = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
        module = get_peft_model(load(tiny_model), adapter, autocast_adapter_dtype=False)
        trainer = TorchEngine(module, policy_forward(module, 1.0), optim=OPTIM)
        trainer.packed = packed
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        results.append(trainer.update([batch], loss_for(totals), lr=1e-2))
        moved = {name for name, p in module.named_parameters() if not p.equal(before[name])}
        assert any("lora_B" in name for name in moved)
        assert all("lora_" in name for name in moved)
        assert all("lora_" in name for name in trainer.optimizer_state())
    assert results[0].grad_norm == pytest.approx(results[1].grad_norm, rel=1e-4)


class OwnKernels:
    """Stands in for the kernels of a GPU: counts the passes that ran by them."""

    complete = True

    def __init__(self, module: Any) -> None:
        self.passes = 0

    @contextmanager
    def active(self) -> Iterator[None]:
        self.passes += 1
        yield


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is compiled, in a process that has kernels of its own."""
    found: list[Any] = []
    monkeypatch.setattr(layers, "fused_layers", OwnKernels)
    monkeypatch.setattr(layers, "missing_for_compiling", lambda: "")
    monkeypatch.setattr(blocks, "missing_for_compiling", lambda: "")
    monkeypatch.setattr(blocks, "_compile", lambda run: found.append(run) or run)
    return found


@pytest.mark.parametrize(
    ("compiled", "updates", "seconds", "expected"),
    [
        ("auto", None, 0.0, [0, 0, 1, 1]),  # after the second update
        ("auto", 3, 1e9, [0, 0, 1, 1]),  # the one that is left takes long enough
        ("auto", 2, 1e9, [0, 0, 0, 0]),  # none is left
        ("auto", 4, 1e-9, [0, 0, 0, 0]),  # too short a run
        (False, None, 1e9, [0, 0, 0, 0]),
        (True, 1, 0.0, [1, 1, 1, 1]),
    ],
)
def test_blocks_are_compiled_once_it_pays(
    tiny_model: Path,
    batch: Batch,
    compilations: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    compiled: Any,
    updates: int | None,
    seconds: float,
    expected: list[int],
) -> None:
    trainer, found = engine(tiny_model, compiled=compiled, updates=updates), [len(compilations)]
    updated = trainer._layers.updated
    monkeypatch.setattr(trainer._layers, "updated", lambda _: updated(seconds))
    for _ in range(3):
        trainer.update([batch], loss_for(Totals.of(batch.response_mask)), lr=1e-3)
        found.append(len(compilations))
    assert found == expected


def test_compiled_blocks_have_no_kernels_of_ours_inside(tiny_model: Path, compilations: list[Any]) -> None:
    assert engine(tiny_model, compiled=True)._layers._fused is None
    assert engine(tiny_model, compiled=False)._layers._fused is not None


def test_compiled_blocks_that_need_too_much_memory_are_given_up_first(
    tiny_model: Path, batch: Batch, compilations: list[Any]
) -> None:
    trainer, forward, notices = small(tiny_model, 99, compiled="auto")
    totals = Totals.of(batch.response_mask)
    for _ in range(2):
        trainer.update([batch], loss_for(totals), lr=1e-3)
    own = trainer._layers._before[1]
    forward.calls.clear()
    forward.most = 4

    def enough_again(message: str) -> None:
        notices.append(message)
        forward.most = 99

    trainer._on_notice = enough_again
    assert trainer.update([batch], loss_for(totals), lr=1e-3).applied
    assert forward.calls == [6, 6]
    assert ["no longer compiled" in notice for notice in notices] == [True]
    assert trainer._layers._fused is own
    assert not trainer._layers.step_back()


@pytest.mark.slow
@pytest.mark.parametrize("recompute", ["none", "full", "selective"])
def test_compiled_blocks_compute_the_same_whatever_the_lengths(tiny_model: Path, batch: Batch, recompute: str) -> None:
    totals = Totals.of(batch.response_mask)
    plain, compiled = engine(tiny_model), engine(tiny_model, compiled=True, recompute=recompute)
    for parts in ([batch], batch.split(2), batch.split(1)):
        one, two = (e.update(parts, loss_for(totals), lr=1e-3) for e in (plain, compiled))
        assert two.loss == pytest.approx(one.loss, abs=1e-5)
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-3)
    assert "forward" not in vars(compiled.module.model.layers[0])  # others use the module as it is
