"""The graph engine: equal to transformers' own generation for every family it takes, and no wrong result for others."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from verlcli.engine.rollout import GraphRollout, HfRollout, Sampling
from verlcli.engine.rollout.graph.sampling import draw, filter_top, uniform
from verlcli.engine.rollout.graph.support import why_not

SHAPE = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "bos_token_id": 1,
}
FAMILIES = [
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma",
    "phi3",
    "smollm3",
    "olmo2",
    "granite",
    "cohere",
    "gemma3_text",
]
PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14], [15, 16, 17, 18]]


def random_model(family: str, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    settings = SHAPE | {"sliding_window": None} | changes
    if family in ("qwen3", "gemma", "gemma3_text"):
        settings["head_dim"] = 8
    if family == "gemma3_text":
        settings["sliding_window"] = 128  # longer than any sequence here
    if family == "granite":
        settings["logits_scaling"] = 8.0
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # random weights as they come give nearly uniform tokens
    return model


def graph(model: Any, **changes: Any) -> GraphRollout:
    return GraphRollout(model, **({"eos_ids": [2], "pad_id": 0} | changes))


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_tokens_and_logprobs_are_those_of_transformers_at_growing_lengths(family: str) -> None:
    model = random_model(family)
    ours, theirs = graph(model), HfRollout(model, eos_ids=[2], pad_id=0, batch_size=None)
    assert why_not(ours, model, 64) is None
    for length in (1, 7, 40):
        sampling = Sampling(length, temperature=0.0)
        a, b = ours.generate(PROMPTS, 2, sampling), theirs.generate(PROMPTS, 2, sampling)
        assert a.tokens.equal(b.tokens)
        assert a.mask.equal(b.mask)
        assert a.logprobs.allclose(b.logprobs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("mistral", {"sliding_window": 16}, "slides over 16 tokens"),
        ("gemma2", {}, "softcap"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "changes with"),
    ],
)
def test_a_model_it_would_get_wrong_is_refused_with_the_reason(
    family: str, changes: dict[str, Any], reason: str
) -> None:
    model = random_model(family, **changes)
    refusal = why_not(graph(model), model, 300)
    assert refusal is not None
    assert reason in refusal


def test_a_model_whose_forward_pass_is_another_is_refused() -> None:
    model = random_model("llama")
    engine = graph(model)
    engine._model = engine._decoder._model = random_model("llama", rope_parameters={"rope_theta": 10.0})
    assert "differ" in str(why_not(engine, model, 64))


def test_what_is_drawn_does_not_depend_on_batching() -> None:
    model = random_model("llama")
    torch.manual_seed(1)
    whole = graph(model).generate(PROMPTS, 6, Sampling(20, temperature=0.9))
    torch.manual_seed(1)
    parts = graph(model, batch_size=6).generate(PROMPTS, 6, Sampling(20, temperature=0.9))
    assert whole.tokens.equal(parts.tokens)
    assert whole.logprobs.allclose(parts.logprobs, atol=1e-5)


def test_finished_rows_are_dropped_and_nobody_else_notices() -> None:
    model = random_model("llama")
    torch.manual_seed(1)
    alone = graph(model).generate(PROMPTS, 16, Sampling(40), lengths=torch.full((64,), 40))
    lengths = torch.tensor([40 if i % 8 == 0 else 1 + i % 5 for i in range(64)])
    torch.manual_seed(1)
    mixed = graph(model).generate(PROMPTS, 16, Sampling(40), lengths=lengths)
    long = lengths == 40
    assert mixed.mask.sum(-1)[~long].le(lengths[~long]).all()
    assert mixed.tokens[long].equal(alone.tokens[long, : mixed.tokens.shape[1]])
    assert mixed.logprobs[long].allclose(alone.logprobs[long, : mixed.tokens.shape[1]], atol=1e-5)


def test_the_samples_of_a_prompt_differ_and_the_seed_decides() -> None:
    engine = graph(random_model("llama"))
    torch.manual_seed(5)
    first = engine.generate(PROMPTS[:1], 32, Sampling(8)).tokens
    second = engine.generate(PROMPTS[:1], 32, Sampling(8)).tokens
    torch.manual_seed(5)
    again = engine.generate(PROMPTS[:1], 32, Sampling(8)).tokens
    assert again.equal(first)
    assert len({tuple(row) for row in first.tolist()}) > 24
    assert not second[:, : first.shape[1]].equal(first[:, : second.shape[1]])


def test_tokens_are_drawn_with_their_probabilities() -> None:
    z = torch.tensor([[2.0, 1.0, 0.0, -1.0, float("-inf"), 0.5]])
    count = 200_000
    tokens, logprobs = draw(
        z.expand(count, -1), torch.arange(count), torch.zeros(1, dtype=torch.long), seed=7, greedy=False
    )
    share = torch.bincount(tokens, minlength=6).double() / count
    expected = z[0].double().softmax(-1)
    assert (share - expected).abs().max() < 4 * (0.25 / count) ** 0.5
    assert share[4] == 0
    assert logprobs.allclose(z[0].log_softmax(-1)[tokens])


def test_noise_is_uniform_and_independent_in_every_argument() -> None:
    n = 4096
    for numbers in (
        uniform(3, torch.arange(n), torch.zeros(1, dtype=torch.long)),
        uniform(3, torch.zeros(1, dtype=torch.long), torch.arange(n)),
        torch.cat([uniform(seed, torch.zeros(1).long(), torch.zeros(1).long()) for seed in range(n)]),
    ):
        ordered = numbers.sort().values
        distance = (ordered - (torch.arange(n) + 0.5) / n).abs().max()
        assert distance < 1.95 / n**0.5  # Kolmogorov-Smirnov at one in a thousand
        shifted = torch.corrcoef(torch.stack([numbers[1:], numbers[:-1]]))[0, 1]
        assert abs(shifted) < 4 / n**0.5


def test_top_k_and_top_p_keep_the_likeliest_tokens() -> None:
    z = torch.tensor([[3.0, 2.0, 1.0, 0.0]]).log_softmax(-1)
    assert filter_top(z, top_k=2, top_p=1.0).isfinite().tolist() == [[True, True, False, False]]
    # 0.644, 0.237, 0.087, 0.032: the token that crosses 0.7 stays in.
    assert filter_top(z, top_k=0, top_p=0.7).isfinite().tolist() == [[True, True, False, False]]
    assert filter_top(z, top_k=0, top_p=1e-9).isfinite().tolist() == [[True, False, False, False]]
    assert filter_top(z, top_k=99, top_p=1.0).equal(z)


def test_several_end_tokens_end_a_response() -> None:
    model = random_model("llama")
    torch.manual_seed(0)
    rollout = graph(model, eos_ids=[2, 40, 41, 42]).generate(PROMPTS, 50, Sampling(30))
    last = rollout.tokens.gather(1, rollout.mask.sum(-1, keepdim=True) - 1).squeeze(-1)
    assert len(set(last[rollout.mask.sum(-1) < 30].tolist()) & {40, 41, 42}) >= 2
    inside = rollout.mask.roll(-1, 1) & rollout.mask
    inside[:, -1] = False
    assert not torch.isin(rollout.tokens[inside], torch.tensor([2, 40, 41, 42])).any()


def test_lora_generates_with_its_adapter() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(random_model("llama"), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3)
    theirs = HfRollout(model, eos_ids=[2], pad_id=0, batch_size=None)
    sampling = Sampling(12, temperature=0.0)
    a, b = graph(model).generate(PROMPTS, 1, sampling), theirs.generate(PROMPTS, 1, sampling)
    assert a.tokens.equal(b.tokens)
    with model.disable_adapter():
        assert not graph(model).generate(PROMPTS, 1, sampling).tokens.equal(a.tokens)


def test_logits_of_its_own_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import LlamaForCausalLM

    model = random_model("llama")
    plain = LlamaForCausalLM.forward

    def warmer(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = plain(self, *args, **kwargs)
        out.logits = out.logits * 1.01
        return out

    monkeypatch.setattr(LlamaForCausalLM, "forward", warmer)
    assert "its logits" in str(why_not(graph(model), model, 64))


def test_a_diverged_policy_is_an_error_not_text() -> None:
    from verlcli.errors import TrainingFailedError

    model = random_model("llama")
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    with pytest.raises(TrainingFailedError, match="diverged"):
        graph(model).generate(PROMPTS, 2, Sampling(4))


def test_fewer_rows_than_samples_of_a_prompt() -> None:
    model = random_model("llama")
    torch.manual_seed(1)
    whole = graph(model).generate(PROMPTS, 6, Sampling(20))
    torch.manual_seed(1)
    parts = graph(model, batch_size=4).generate(PROMPTS, 6, Sampling(20))
    assert whole.tokens.equal(parts.tokens)
