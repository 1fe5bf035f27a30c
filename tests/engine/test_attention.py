"""Packed attention equals attention of each sequence alone, in value and gradient, in every dense family."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from verlcli.config import load_config
from verlcli.engine.attention import NAME, UnsupportedAttentionError, attention, packed_attention
from verlcli.engine.batch import Batch, left_pad
from verlcli.engine.packing import pack
from verlcli.engine.training import policy_forward
from verlcli.engine.training.support import why_not_packed


def _families() -> Any:
    spec = importlib.util.spec_from_file_location("families", Path(__file__).parent / "families.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["families"] = module
    spec.loader.exec_module(module)
    return module


families = _families()


def one_by_one(q: Tensor, k: Tensor, v: Tensor, bounds: list[int], scale: float, window: int | None) -> Tensor:
    """The definition: softmax(scale q k^T) v over what each token sees, `[1, T, H, D]`."""
    outs = []
    for start, stop in pairwise(bounds):
        n, group = stop - start, q.shape[1] // k.shape[1]
        keys, values = (x[:, :, start:stop].repeat_interleave(group, 1) for x in (k, v))
        distance = torch.arange(n)[:, None] - torch.arange(n)
        hidden = (distance < 0) | (distance >= (window or n))
        scores = (q[:, :, start:stop] @ keys.mT * scale).masked_fill(hidden, float("-inf"))
        outs.append((scores.softmax(-1) @ values).transpose(1, 2))
    return torch.cat(outs, 1)


@pytest.mark.parametrize("lengths", [[4, 4, 4], [1], [3, 17, 5, 17, 16, 1], [9, 2]])
@pytest.mark.parametrize("window", [None, 4])
def test_packed_attention_is_that_of_each_sequence_alone(lengths: list[int], window: int | None) -> None:
    torch.manual_seed(0)
    bounds = [0, *torch.tensor(lengths).cumsum(0).tolist()]
    shape = (sum(lengths), 8)
    q = torch.randn(1, 4, *shape, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(1, 2, *shape, dtype=torch.float64, requires_grad=True) for _ in range(2))
    out = packed_attention(
        q,
        k,
        v,
        cu_seqlens=torch.tensor(bounds, dtype=torch.int32),
        max_length=max(lengths),
        scale=0.3,
        window=window,
    )
    wanted = one_by_one(q, k, v, bounds, 0.3, window)
    assert out.allclose(wanted, atol=1e-12)
    upstream = torch.randn_like(out)
    for one, two in zip(
        torch.autograd.grad(out, (q, k, v), upstream), torch.autograd.grad(wanted, (q, k, v), upstream), strict=True
    ):
        assert one.allclose(two, atol=1e-12)


def sequences(vocabulary: int = 48) -> Batch:
    generator = torch.Generator().manual_seed(1)
    prompts = [torch.randint(3, vocabulary, (n,), generator=generator).tolist() for n in (5, 12, 2, 9)]
    ids, mask = left_pad(prompts, 0, torch.device("cpu"))
    response_mask = torch.arange(14)[None] < torch.tensor([14, 3, 8, 1])[:, None]
    responses = torch.randint(3, vocabulary, (4, 14), generator=generator) * response_mask
    return Batch(
        input_ids=torch.cat([ids, responses], 1),
        attention_mask=torch.cat([mask, response_mask.long()], 1),
        response_mask=response_mask,
        groups=torch.arange(4),
    )


@pytest.mark.parametrize("name", sorted(families.FAMILIES))
def test_every_family_computes_the_same_packed_as_padded(name: str) -> None:
    model = families.build(name)
    forward, batch = policy_forward(model, 0.8), sequences()
    assert why_not_packed(model, forward) is None
    padded, entropies = forward(batch, None)
    with attention(model):
        assert model.config._attn_implementation == NAME
        packed, packed_entropies = forward(batch, pack(batch))
    assert model.config._attn_implementation != NAME
    mask = batch.response_mask
    assert padded[mask].std() > 0.1  # the tokens are told apart at all
    assert packed[mask].allclose(padded[mask], atol=1e-5)
    assert packed_entropies[mask].allclose(entropies[mask], atol=1e-5)
    assert (packed[~mask] == 0).all()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gemma2-softcap", "its attention has softcap"),
        ("phimoe-window", "it does not hand its sliding window to its attention"),
    ],
)
def test_what_packed_attention_does_not_do_is_said_and_never_left_out(name: str, reason: str) -> None:
    model = families.build(name)
    assert why_not_packed(model, policy_forward(model, 1.0)) == reason
    batch = sequences()
    with attention(model), pytest.raises(UnsupportedAttentionError, match=reason):
        model.base_model(**pack(batch).model_inputs())


def test_layers_that_carry_a_state_from_sequence_to_sequence_are_refused() -> None:
    model = families.build("lfm2")
    assert why_not_packed(model, policy_forward(model, 1.0)) == "it has layers of type conv"


@pytest.mark.parametrize(("name", "reason"), [("bloom", "its results differ by"), ("qwen3", None), ("gpt2", None)])
def test_a_critic_is_judged_though_its_head_is_zero(name: str, reason: str | None) -> None:
    from verlcli.engine.models import build_value_model
    from verlcli.engine.training import value_forward

    critic = build_value_model(families.build(name), model_config(0))
    found = why_not_packed(critic, value_forward(critic))
    assert found is None if reason is None else (found or "").startswith(reason)
    assert not critic.value_head.weight.any()


def model_config(rank: int) -> Any:
    """A model section without adapters, or with."""
    overrides = ["model.path=a/b", "data.source=arithmetic", f"model.lora_rank={rank}"]
    return load_config([], overrides, env={}).require().model


def test_an_adapted_output_head_is_refused() -> None:
    from peft import LoraConfig, get_peft_model

    adapter = LoraConfig(r=2, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM")
    model = get_peft_model(families.build("llama"), adapter)
    assert why_not_packed(model, policy_forward(model, 1.0)) == "its output head is adapted"


def test_a_forward_pass_that_fails_padded_too_is_a_reason_and_a_full_memory_is_none() -> None:
    model = families.build("llama")

    def fails(error: Exception) -> Any:
        def forward(batch: Batch, packed: Any) -> Any:
            raise error

        return forward

    assert why_not_packed(model, fails(TypeError("unexpected keyword"))) == "unexpected keyword"
    with pytest.raises(torch.OutOfMemoryError):
        why_not_packed(model, fails(torch.OutOfMemoryError("CUDA out of memory")))


def test_bounds_of_sequences_are_read_once_a_pass() -> None:
    class Counted(torch.Tensor):
        reads = 0

        def tolist(self) -> Any:
            Counted.reads += 1
            return super().tolist()

    q = torch.randn(1, 2, 7, 8)
    for bounds in ([0, 3, 7], [0, 5, 7]):
        cu_seqlens = torch.tensor(bounds, dtype=torch.int32).as_subclass(Counted)
        Counted.reads = 0
        for _ in range(3):
            out = packed_attention(q, q, q, cu_seqlens=cu_seqlens, max_length=8, scale=0.3)
            assert out.allclose(one_by_one(q, q, q, bounds, 0.3, None), atol=1e-6)
        assert Counted.reads == 1


def test_a_model_that_drops_the_bounds_of_sequences_is_refused() -> None:
    model = families.build("llama")
    batch = sequences()
    inputs = pack(batch).model_inputs()
    with attention(model), pytest.raises(UnsupportedAttentionError, match="bounds"):
        model.base_model(input_ids=inputs["input_ids"], position_ids=inputs["position_ids"], use_cache=False)


def test_a_model_whose_packed_results_differ_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = families.build("granite")
    monkeypatch.setattr("verlcli.engine.training.forwards.head_of", lambda config, t: _plain_head(t))
    reason = why_not_packed(model, policy_forward(model, 1.0))
    assert reason is not None
    assert reason.startswith("its results differ by")


def _plain_head(temperature: float) -> Any:
    from verlcli.engine.training.linear_logprob import Head

    return Head(temperature)


def test_a_critic_computes_the_same_packed_as_padded() -> None:
    from verlcli.engine.models import ValueModel
    from verlcli.engine.training import value_forward

    body = families.build("qwen3").base_model
    critic = ValueModel(body, body, 32)
    torch.nn.init.normal_(critic.value_head.weight)
    forward, batch = value_forward(critic), sequences()
    assert why_not_packed(critic, forward) is None
    padded = forward(batch, None)
    with attention(critic):
        packed = forward(batch, pack(batch))
    assert padded[batch.response_mask].std() > 0.1
    assert packed[batch.response_mask].allclose(padded[batch.response_mask], atol=1e-5)
