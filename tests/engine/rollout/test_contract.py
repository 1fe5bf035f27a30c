"""What every rollout engine promises: log-probs of what was sampled, masks, greedy equality, chunks, stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.engine.rollout import GraphRollout, HfRollout, RolloutEngine, Sampling

Engine = Callable[..., RolloutEngine]
PROMPTS = [[5, 14, 6, 17], [4, 5, 14, 7, 8, 17], [9, 17]]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer(tiny_model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_model)


@pytest.fixture(params=["hf", "graph"])
def engine(request: pytest.FixtureRequest, model: Any, tokenizer: Any) -> Engine:
    def make(batch_size: int | None = None) -> RolloutEngine:
        if request.param == "hf":
            return HfRollout(model, eos_ids=[2], pad_id=0, batch_size=batch_size, tokenizer=tokenizer)
        return GraphRollout(model, eos_ids=[2], pad_id=0, batch_size=batch_size, decode=tokenizer.decode)

    return make


@pytest.mark.parametrize(
    "sampling",
    [Sampling(6), Sampling(6, temperature=0.7), Sampling(6, temperature=1.3, top_k=5), Sampling(6, top_p=0.8)],
)
def test_logprobs_are_those_of_the_sampling_distribution(engine: Engine, model: Any, sampling: Sampling) -> None:
    torch.manual_seed(0)
    rollout = engine().generate(PROMPTS, 4, sampling)
    for i in range(12):
        prompt, n = PROMPTS[i // 4], int(rollout.mask[i].sum())
        ids = torch.tensor([prompt + rollout.tokens[i, :n].tolist()])
        with torch.no_grad():
            logits = model(ids).logits[0, len(prompt) - 1 : -1].float() / sampling.temperature
        for t in range(n):
            allowed = torch.full_like(logits[t], -torch.inf)
            kept = logits[t].topk(sampling.top_k or logits.shape[-1]).indices
            ordered = kept[logits[t, kept].argsort(descending=True)]
            mass = logits[t, ordered].softmax(-1).cumsum(-1)
            ordered = ordered[: int((mass < sampling.top_p).sum()) + 1]
            allowed[ordered] = logits[t, ordered]
            wanted = allowed.log_softmax(-1)[rollout.tokens[i, t]]
            assert rollout.logprobs[i, t].item() == pytest.approx(wanted.item(), abs=2e-5)


def test_masks_end_with_the_first_eos_and_padding_is_zero(engine: Engine) -> None:
    torch.manual_seed(1)
    rollout = engine().generate(PROMPTS, 40, Sampling(12))
    ended = 0
    for tokens, mask, logprobs in zip(rollout.tokens, rollout.mask, rollout.logprobs, strict=True):
        n = int(mask.sum())
        assert mask[:n].all()
        assert not mask[n:].any()
        assert (tokens[:n][:-1] != 2).all()
        assert (tokens[n:] == 0).all()
        assert (logprobs[n:] == 0).all()
        ended += int(tokens[n - 1] == 2)
    assert 0 < ended <= 120
    assert rollout.num_tokens == int(rollout.mask.sum())


def test_greedy_tokens_equal_transformers_one_prompt_at_a_time(engine: Engine, model: Any) -> None:
    rollout = engine().generate(PROMPTS, 1, Sampling(8, temperature=0.0))
    for i, prompt in enumerate(PROMPTS):
        alone = model.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, pad_token_id=0)[
            0, len(prompt) :
        ]
        n = int(rollout.mask[i].sum())
        assert rollout.tokens[i, :n].tolist() == alone[:n].tolist()


def test_the_models_own_sampling_defaults_do_not_bend_the_policy(engine: Engine, model: Any) -> None:
    torch.manual_seed(3)
    plain = engine().generate(PROMPTS, 8, Sampling(6))
    own = model.generation_config
    own.top_k, own.temperature, own.repetition_penalty = 1, 0.1, 5.0
    try:
        torch.manual_seed(3)
        again = engine().generate(PROMPTS, 8, Sampling(6))
        assert model.generation_config is own
    finally:
        own.top_k = own.temperature = own.repetition_penalty = None
    assert again.tokens.equal(plain.tokens)


def test_chunks_give_rows_in_prompt_order(engine: Engine) -> None:
    whole = engine().generate(PROMPTS, 2, Sampling(8, temperature=0.0))
    chunked = engine(batch_size=4).generate(PROMPTS, 2, Sampling(8, temperature=0.0))
    assert chunked.tokens.equal(whole.tokens)
    assert chunked.mask.equal(whole.mask)
    assert chunked.logprobs.allclose(whole.logprobs, atol=1e-5)


def test_no_end_token_comes_before_min_tokens(engine: Engine) -> None:
    torch.manual_seed(0)
    free = engine().generate(PROMPTS, 40, Sampling(6)).mask.sum(-1)
    assert free.min() < 4  # without it, some end early
    torch.manual_seed(0)
    held = engine().generate(PROMPTS, 40, Sampling(6, min_tokens=4))
    assert held.mask.sum(-1).min() >= 4
    assert (held.tokens[:, :4] != 2).all()
    assert held.logprobs.isfinite().all()


def test_a_stop_string_ends_the_response_with_the_token_that_completes_it(engine: Engine, tokenizer: Any) -> None:
    torch.manual_seed(0)
    rollout = engine().generate(PROMPTS, 40, Sampling(24, min_tokens=24, stop=("7",)))
    stopped = 0
    for tokens, mask, logprobs in zip(rollout.tokens, rollout.mask, rollout.logprobs, strict=True):
        n = int(mask.sum())
        text, before = tokenizer.decode(tokens[:n].tolist()), tokenizer.decode(tokens[: n - 1].tolist())
        assert "7" not in before
        assert (logprobs[n:] == 0).all()
        assert mask[:n].all()
        stopped += "7" in text
        assert "7" in text or n == 24
    assert stopped > 20
