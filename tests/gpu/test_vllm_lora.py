"""LoRA in the vllm rollout engine on a GPU, beside the trainer's own forward pass; in a process of its own.

vLLM's sleep allows one engine a process, and `test_vllm_rollout.py` has it: run the two files one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from verlcli.engine.rollout import Rollout, Sampling
from verlcli.engine.rollout.vllm import VllmRollout
from verlcli.engine.rollout.weights import base_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available() or find_spec("vllm") is None, reason="needs CUDA and vLLM"),
]

PROMPTS = [[3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13], [14, 15]]
EOS = (1,)
SAMPLING = Sampling(24, min_tokens=24)
NOISE = 5e-3  # nats a token, several times what float16 rounds; one layer's query adapter left out is 2e-2
EFFECT = 0.25  # nats a token; another adapter is more than 1
RANK = 12  # between two of vLLM's own


@pytest.fixture(scope="module")
def policy() -> Any:
    """A random float16 Llama with LoRA on every linear layer of its body, whose B is not zero."""
    peft = pytest.importorskip("peft")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads, tie_word_embeddings=False))
    with torch.no_grad():
        model.lm_head.weight.normal_(std=0.1)
    lora = peft.LoraConfig(r=RANK, lora_alpha=24, target_modules="all-linear", task_type="CAUSAL_LM")
    module = peft.get_peft_model(model.to("cuda", torch.float16), lora, autocast_adapter_dtype=False).eval()
    change_adapter(module, 1)
    return module


@pytest.fixture(scope="module")
def engine(policy: Any) -> VllmRollout:
    return VllmRollout(
        policy,
        make_tokenizer(),
        eos_ids=EOS,
        pad_id=0,
        max_model_len=64,
        dtype="float16",  # rounds eight times finer than bfloat16, so that little can hide
        gpu_memory_utilization=0.2,
        max_num_batched_tokens=2048,
        max_num_seqs=64,
    )  # with CUDA graphs, as runs have them


@pytest.fixture(autouse=True)
def as_at_first(engine: VllmRollout, policy: Any) -> Iterator[None]:
    """Each test ends with the first adapter, and vLLM asleep."""
    yield
    engine.sleep()
    change_adapter(policy, 1)


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<pad>": 0, "<eos>": 1, **{f"w{i}": i for i in range(2, 64)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


@torch.no_grad()
def change_adapter(module: Any, seed: int) -> None:
    generator = torch.Generator("cuda").manual_seed(seed)
    for name, parameter in module.named_parameters():
        if "lora_B" in name:
            parameter.normal_(std=0.05, generator=generator)


@torch.no_grad()
def trainer_logprobs(module: Any, rollout: Rollout, prompts: Sequence[Sequence[int]]) -> Tensor:
    """`[B, T]` of the tokens that were drawn, all rows full, from the trainer's own forward pass."""
    n = len(rollout.tokens) // len(prompts)
    rows = []
    for i, tokens in enumerate(rollout.tokens):
        prompt = prompts[i // n]
        ids = torch.tensor([[*prompt, *tokens.tolist()]], device="cuda")
        logits = module(ids).logits[0, len(prompt) - 1 : -1].float()
        logits[:, list(EOS)] = -torch.inf  # `min_tokens` are not reached
        rows.append(logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1))
    return torch.stack(rows)


def gap(module: Any, rollout: Rollout, prompts: Sequence[Sequence[int]] = PROMPTS) -> float:
    """Mean difference, in nats a token, between the engine's log-probs and the trainer's."""
    assert bool(rollout.mask.all())
    return float((rollout.logprobs - trainer_logprobs(module, rollout, prompts)).abs().mean())


def test_logprobs_are_the_trainers_of_base_and_adapter(engine: VllmRollout, policy: Any) -> None:
    torch.manual_seed(0)
    rollout = engine.generate(PROMPTS, 8, SAMPLING)
    assert gap(policy, rollout) < NOISE
    with policy.disable_adapter():
        assert gap(policy, rollout) > EFFECT


def test_an_adapter_changed_while_vllm_slept_is_the_one_that_generates(engine: VllmRollout, policy: Any) -> None:
    first = engine.generate(PROMPTS, 8, SAMPLING)
    for seed in (2, 3):
        engine.sleep()
        change_adapter(policy, seed)
        assert gap(policy, first) > EFFECT
        assert gap(policy, engine.generate(PROMPTS, 8, SAMPLING)) < NOISE


def test_an_adapter_changed_while_vllm_is_awake_leaves_no_cached_prompt(engine: VllmRollout, policy: Any) -> None:
    prompts = [[*range(2, 40)], [*range(2, 40)], [*range(2, 40)]]  # blocks that a second call finds in the cache
    engine.generate(prompts, 8, SAMPLING)
    change_adapter(policy, 4)
    engine.load_weights(base_weights(policy))
    rollout = engine.generate(prompts, 8, SAMPLING)
    assert gap(policy, rollout, prompts) < NOISE


def test_an_adapter_that_did_not_change_is_there_after_each_sleep_and_each_call(
    engine: VllmRollout, policy: Any
) -> None:
    for sleeps in (False, False, True, True):  # the slot of an adapter does not outlive a sleep
        if sleeps:
            engine.sleep()
        assert gap(policy, engine.generate(PROMPTS, 8, SAMPLING)) < NOISE


def test_a_base_that_changed_too_is_loaded_beside_the_adapter(engine: VllmRollout, policy: Any) -> None:
    engine.generate(PROMPTS, 1, SAMPLING)
    head = policy.get_base_model().lm_head.weight
    query = policy.get_base_model().model.layers[0].self_attn.q_proj.base_layer.weight
    originals = [(each, each.detach().clone()) for each in (head, query)]
    try:
        with torch.no_grad():
            for each, original in originals:
                each.copy_(original.roll(1, 0))
        engine.sleep()
        assert gap(policy, engine.generate(PROMPTS, 8, SAMPLING)) < NOISE
    finally:
        with torch.no_grad():
            for each, original in originals:
                each.copy_(original)


def test_an_adapter_of_zeros_is_the_base(engine: VllmRollout, policy: Any) -> None:
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.zero_()
    rollout = engine.generate(PROMPTS, 8, SAMPLING)
    with policy.disable_adapter():
        assert gap(policy, rollout) < NOISE
