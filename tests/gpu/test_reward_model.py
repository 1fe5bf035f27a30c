"""On a GPU: a bf16 reward model runs packed and scores as it does padded, and as fp32 arithmetic does."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForSequenceClassification,
)

from verlcli.engine.rewards.model import RewardModel

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
WORDS = ["<pad>", "</s>", "<unk>", *(f"w{i}" for i in range(997))]
SHAPE = {
    "vocab_size": len(WORDS),
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "pad_token_id": 0,
    "num_labels": 1,
}
FAMILIES: dict[str, Any] = {
    "llama": (LlamaConfig, LlamaForSequenceClassification),
    "qwen2": (Qwen2Config, Qwen2ForSequenceClassification),
}


def make_model(family: str, dtype: torch.dtype) -> tuple[RewardModel, list[Any], list[str]]:
    """A reward model, the arguments of its body's passes, and its notices; weights are bf16's in every dtype."""
    config, classifier = FAMILIES[family]
    torch.manual_seed(0)
    module = classifier(config(**SHAPE)).bfloat16().to("cuda", dtype).eval()
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=2048
    )
    notices: list[str] = []
    model = RewardModel(module, tokenizer, on_notice=notices.append)
    passes: list[Any] = []
    module.base_model.register_forward_pre_hook(lambda _, __, kwargs: passes.append(kwargs), with_kwargs=True)
    return model, passes, notices


def some_texts(count: int) -> tuple[list[str], list[str]]:
    """Of 2 to 1400 tokens; every fourth ends in padding of its own."""
    draw = random.Random(0)

    def words(most: int) -> str:
        return " ".join(draw.choices(WORDS[3:], k=draw.randint(1, most)))

    return [words(200) for _ in range(count)], [f" {words(1200)}" + " <pad>" * 3 * (i % 4 == 0) for i in range(count)]


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_a_bf16_reward_model_runs_packed_and_scores_as_padded_and_as_fp32(family: str) -> None:
    prompts, responses = some_texts(64)
    model, passes, notices = make_model(family, torch.bfloat16)
    assert model.packed
    assert not notices
    scores = torch.tensor(model.score(prompts, responses))
    tokens = sum(len(row) - 3 * (row[-1] == 0) for row in model.encode(prompts, responses))
    assert sum(inputs["input_ids"].numel() for inputs in passes) == tokens
    for inputs in passes:
        lengths = [stop - start for start, stop in pairwise(inputs["cu_seq_lens_q"].tolist())]
        assert inputs["input_ids"].shape == (1, sum(lengths))
        assert max(lengths) <= inputs["max_length_q"]
    model.packed = False
    padded = torch.tensor(model.score(prompts, responses))
    exact, _, _ = make_model(family, torch.float32)
    assert exact.packed  # without a kernel for fp32, but the same way
    wanted = torch.tensor(exact.score(prompts, responses))
    assert wanted.std() > 0.1  # the texts are told apart by more than the gap
    assert (scores - padded).abs().max() <= 2e-2
    assert (scores - wanted).abs().max() <= 2e-2
