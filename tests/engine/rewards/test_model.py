"""The reward model's input: special tokens once, and the response always in it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast

from verlcli.engine.rewards.model import RewardModel

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "user", "assistant", *"abcdefgh"]
TEMPLATE = "{{ bos_token }}{% for m in messages %} {{ m.role }} {{ m.content }}{% endfor %}{{ eos_token }}"


@pytest.fixture
def model() -> RewardModel:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=8,
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    module = LlamaForSequenceClassification(LlamaConfig(vocab_size=len(WORDS), num_labels=1, **sizes)).eval()
    return RewardModel(module, tokenizer, batch_size=2)


@pytest.mark.parametrize(
    ("prompt", "response", "wanted"),
    [
        (({"role": "user", "content": "a b"},), " c", "<s> user a b assistant c </s>"),
        ("a b", " c", "<s> a b c"),
        (({"role": "user", "content": "a b c d e f"},), " g h", "c d e f assistant g h </s>"),
        ("a b c d e f g", " h h", "<s> c d e f g h h"),
    ],
    ids=["chat", "text", "long chat", "long text"],
)
def test_a_template_brings_its_own_special_tokens_and_a_long_prompt_loses_its_start(
    model: RewardModel, prompt: Any, response: str, wanted: str
) -> None:
    assert [WORDS[i] for i in model.encode(prompt, response)] == wanted.split()


def test_scores_do_not_depend_on_what_else_is_in_the_batch(model: RewardModel) -> None:
    prompts: list[Any] = [({"role": "user", "content": "a"},), "b c d e", "f"]
    together = model.score(prompts, [" g", " h", " a"])
    alone = [model.score([prompt], [response])[0] for prompt, response in zip(prompts, [" g", " h", " a"], strict=True)]
    assert together == pytest.approx(alone, abs=1e-6)
    assert len(set(together)) == 3
