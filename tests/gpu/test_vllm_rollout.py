"""The vllm rollout engine on a GPU, beside transformers' own `generate`; with LoRA: `test_vllm_lora.py`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from verlcli.engine.rollout import HfRollout, Rollout, Sampling
from verlcli.engine.rollout.vllm import VllmRollout
from verlcli.engine.rollout.weights import base_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available() or find_spec("vllm") is None, reason="needs CUDA and vLLM"),
]

WORDS = ["<pad>", "<eos>", "<end>", *"abcdefghijklm"]
NOISE = 4e-2  # nats a token, of fp16 arithmetic in two implementations: seen at 0.02
PROMPTS = [[3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13], [14, 15]]
EOS = (1, 2)
GREEDY = Sampling(20, temperature=0.0, min_tokens=20)
STOPS = ("k", "h", "ab")  # none of them is in a special token
MIB = 2**20
SEED = 1220  # chosen so that `make_model` keeps its promise


def make_model(device: str) -> Any:
    """A random float16 Llama whose greedy choices are clear: the best token leads by more than rounding can blur."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": len(WORDS)}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=False))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):  # the same in every version of transformers
            if "norm" not in name:
                parameter.normal_(std=0.16 if "lm_head" in name else 0.02, generator=generator)
    model.generation_config.eos_token_id = list(EOS)
    return model.to(device=device, dtype=torch.float16).eval()


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


@pytest.fixture(scope="module")
def model() -> Any:
    return make_model("cuda")


@pytest.fixture(scope="module")
def engine(model: Any) -> VllmRollout:
    """One for all tests: vLLM's sleep allows one engine a process."""
    return VllmRollout(
        model,
        make_tokenizer(),
        eos_ids=EOS,
        pad_id=0,
        max_model_len=64,
        dtype="float16",
        gpu_memory_utilization=0.2,
        max_num_batched_tokens=2048,
        max_num_seqs=64,
        enforce_eager=True,
    )


@pytest.fixture(autouse=True)
def asleep(engine: VllmRollout) -> Iterator[None]:
    """The next test's weights are the trainer's of that moment."""
    yield
    engine.sleep()


def hf(model: Any) -> HfRollout:
    return HfRollout(model, eos_ids=EOS, pad_id=0, batch_size=None)


def check_equal(got: Rollout, wanted: Rollout) -> None:
    assert got.prompt_ids.equal(wanted.prompt_ids)
    assert got.prompt_mask.equal(wanted.prompt_mask)
    assert got.tokens.tolist() == wanted.tokens.tolist()
    assert got.mask.equal(wanted.mask)
    assert got.logprobs.allclose(wanted.logprobs, atol=2e-2)


@pytest.mark.parametrize("n", [1, 3])
def test_greedy_tokens_and_logprobs_are_those_of_transformers(engine: VllmRollout, model: Any, n: int) -> None:
    got = engine.generate(PROMPTS, n, GREEDY)
    assert got.mask.sum(-1).tolist() == [20] * len(PROMPTS) * n
    check_equal(got, hf(model).generate(PROMPTS, n, GREEDY))


@pytest.mark.parametrize(
    "sampling",
    [Sampling(16), Sampling(16, temperature=0.7), Sampling(16, temperature=1.3, top_k=4), Sampling(16, top_p=0.8)],
)
def test_logprobs_are_those_of_the_sampling_distribution(engine: VllmRollout, model: Any, sampling: Sampling) -> None:
    torch.manual_seed(0)
    rollout = engine.generate(PROMPTS, 16, sampling)
    assert len({tuple(row) for row in rollout.tokens.tolist()}) > 20
    for i, (tokens, mask) in enumerate(zip(rollout.tokens, rollout.mask, strict=True)):
        prompt, length = PROMPTS[i // 16], int(mask.sum())
        ids = torch.tensor([prompt + tokens[:length].tolist()], device="cuda")
        with torch.no_grad():
            logits = model(ids).logits[0, len(prompt) - 1 : -1].float() / sampling.temperature
        if sampling.top_k:
            # Two equal logits at the edge may stay in or out, so the bound is the looser set.
            logits = logits.masked_fill(logits < logits.topk(sampling.top_k, dim=-1).values[:, -1:], -torch.inf)
        wanted = logits.log_softmax(-1).gather(-1, tokens[:length, None]).squeeze(-1)
        gap = rollout.logprobs[i, :length] - wanted
        if sampling.top_p < 1:
            # What is cut away is at most 1 - top_p of the probability.
            assert bool((gap > -NOISE).all())
            assert bool((gap < -torch.tensor(sampling.top_p).log() + NOISE).all())
        else:
            assert gap.abs().max() < NOISE


def test_the_same_seed_draws_the_same_and_another_does_not(engine: VllmRollout) -> None:
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(engine.generate(PROMPTS, 8, Sampling(16)).tokens.tolist())
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


def test_weights_changed_by_the_trainer_change_the_output_in_place(engine: VllmRollout, model: Any) -> None:
    before = engine.generate(PROMPTS, 1, GREEDY)
    head = model.lm_head.weight
    original = head.detach().clone()
    try:
        with torch.no_grad():
            head.copy_(original.roll(1, 0))
        assert engine.generate(PROMPTS, 1, GREEDY).tokens.equal(before.tokens)  # vLLM's are a copy
        engine.load_weights(base_weights(model))  # awake: the cached prompts must go too
        check_equal(engine.generate(PROMPTS, 1, GREEDY), hf(model).generate(PROMPTS, 1, GREEDY))
        with torch.no_grad():
            head.copy_(original.roll(2, 0))
        engine.sleep()
        again = engine.generate(PROMPTS, 1, GREEDY)
        check_equal(again, hf(model).generate(PROMPTS, 1, GREEDY))
        assert not again.tokens.equal(before.tokens)
    finally:
        with torch.no_grad():
            head.copy_(original)


def test_sleep_frees_the_memory_and_wake_takes_it_again(engine: VllmRollout) -> None:
    before = engine.generate(PROMPTS, 1, GREEDY)
    torch.cuda.empty_cache()
    awake = torch.cuda.mem_get_info()[0]
    engine.sleep()
    engine.sleep()
    asleep = torch.cuda.mem_get_info()[0]
    assert asleep - awake > 0.15 * torch.cuda.mem_get_info()[1]
    engine.wake()
    assert abs(torch.cuda.mem_get_info()[0] - awake) < 512 * MIB
    check_equal(engine.generate(PROMPTS, 1, GREEDY), before)


def test_every_end_token_ends_a_response_and_none_comes_before_min_tokens(engine: VllmRollout) -> None:
    torch.manual_seed(0)
    rollout = engine.generate(PROMPTS, 64, Sampling(40, min_tokens=3))
    ends = set()
    for tokens, mask in zip(rollout.tokens.tolist(), rollout.mask.sum(-1).tolist(), strict=True):
        assert mask >= 3
        assert not set(tokens[: mask - 1]) & set(EOS)
        assert tokens[mask - 1] in EOS or mask == 40
        ends.add(tokens[mask - 1])
    assert ends >= set(EOS)


@pytest.mark.parametrize("min_tokens", [0, 24])
def test_a_stop_string_ends_the_response_with_the_token_that_completes_it(engine: VllmRollout, min_tokens: int) -> None:
    torch.manual_seed(0)
    rollout = engine.generate(PROMPTS, 16, Sampling(24, min_tokens=min_tokens, stop=STOPS))
    stopped = 0
    for tokens, length in zip(rollout.tokens.tolist(), rollout.mask.sum(-1).tolist(), strict=True):
        text = "".join(WORDS[token] for token in tokens[:length])
        before = "".join(WORDS[token] for token in tokens[: length - 1])
        assert not any(each in before for each in STOPS)
        stopped += text.endswith(STOPS)
    assert stopped > 8
