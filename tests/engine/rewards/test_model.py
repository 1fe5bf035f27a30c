"""The reward model: its input, and scores that do not depend on what else is scored."""

from __future__ import annotations

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Gemma2Config,
    Gemma2ForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForSequenceClassification,
)

from verlcli.engine.rewards.model import RewardModel, batches_by_length
from verlcli.engine.scoring import score_responses
from verlcli.engine.types import PromptRow
from verlcli.errors import ConfigError

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "user", "assistant", *"abcdefgh"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% endfor %}"
    "{{ bos_token }}{% for m in messages %} {{ m.role }} {{ m.content }}{% endfor %}{{ eos_token }}"
)
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}
FAMILIES: dict[str, Any] = {
    "llama": (LlamaConfig, LlamaForSequenceClassification),
    "qwen2": (Qwen2Config, Qwen2ForSequenceClassification),
    "gemma2": (Gemma2Config, Gemma2ForSequenceClassification),
    "bert": (BertConfig, BertForSequenceClassification),
}
CHAT = ({"role": "user", "content": "a b"},)


def make_tokenizer(*, limit: int = 64, template: str | None = TEMPLATE) -> Any:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="</s>",  # as the loader sets it for a tokenizer without one
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=limit,
    )
    tokenizer.chat_template = template
    return tokenizer


def make_module(family: str = "llama", *, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    config, classifier = FAMILIES[family]
    torch.manual_seed(0)
    return classifier(config(vocab_size=len(WORDS), num_labels=1, **(SIZES | changes))).to(dtype).eval()


def some_texts(count: int) -> tuple[list[Any], list[str]]:
    draw = random.Random(0)

    def words(most: int) -> str:
        return " ".join(draw.choices("abcdefgh", k=draw.randint(1, most)))

    prompts = [words(9) if i % 3 else ({"role": "user", "content": words(9)},) for i in range(count)]
    return prompts, [f" {words(20)}" if i % 5 else "" for i in range(count)]


@pytest.mark.parametrize(
    ("prompt", "response", "wanted"),
    [
        (CHAT, " c", "<s> user a b assistant c </s>"),
        ("a b", " c", "<s> a b c"),
        (({"role": "user", "content": "a b c d e f"},), " g h", "c d e f assistant g h </s>"),
        ("a b c d e f g", " h h", "<s> c d e f g h h"),
    ],
    ids=["chat", "text", "long chat", "long text"],
)
def test_a_template_brings_its_own_special_tokens_and_a_long_prompt_loses_its_start(
    prompt: Any, response: str, wanted: str
) -> None:
    model = RewardModel(make_module(), make_tokenizer(limit=8))
    (ids,) = model.encode([prompt], [response])
    assert [WORDS[i] for i in ids] == wanted.split()


def test_without_a_template_messages_are_joined() -> None:
    model = RewardModel(make_module(), make_tokenizer(template=None))
    (ids,) = model.encode([CHAT], ["c"])
    assert [WORDS[i] for i in ids] == ["<s>", "a", "b", "c"]


@pytest.mark.parametrize("pad_id", [None, -1, 0, 2], ids=["no pad", "-1", "pad", "pad is eos"])
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "padded"])
def test_scores_are_those_of_one_text_at_a_time(packed: bool, family: str, pad_id: int | None) -> None:
    module = make_module(family, pad_token_id=None if pad_id == -1 else pad_id)
    module.config.pad_token_id = pad_id
    model = RewardModel(module, make_tokenizer(), batch_tokens=128)
    assert model.packed
    model.packed = packed
    prompts, responses = some_texts(37)
    scores = model.score(prompts, responses)
    module.config.pad_token_id = None if pad_id == -1 else pad_id
    with torch.no_grad():
        alone = [module(torch.tensor([ids])).logits.item() for ids in model.encode(prompts, responses)]
    assert scores == pytest.approx(alone, abs=1e-5)
    assert len({round(score, 4) for score in scores}) > 30


@pytest.mark.parametrize("pad_id", [None, 0])
def test_encoders_are_scored_through_their_own_head(pad_id: int | None) -> None:
    module = make_module("bert", pad_token_id=pad_id)
    notices: list[str] = []
    model = RewardModel(module, make_tokenizer(), on_notice=notices.append)
    assert not model.packed
    assert not notices  # nobody expects an encoder to run packed
    prompts, responses = some_texts(11)
    with torch.no_grad():
        alone = [module(torch.tensor([ids])).logits.item() for ids in model.encode(prompts, responses)]
    assert model.score(prompts, responses) == pytest.approx(alone, abs=1e-5)


@pytest.mark.parametrize(
    ("family", "changes", "reason"),
    [
        ("gemma2", {"head_dim": 8, "attn_implementation": "eager"}, "its attention has softcap"),
        ("llama", {"is_causal": False}, "its results differ by"),
    ],
    ids=["softcap", "both ways"],
)
def test_a_decoder_that_cannot_run_packed_is_scored_padded_and_says_why_once(
    family: str, changes: dict[str, Any], reason: str
) -> None:
    module = make_module(family, pad_token_id=0, **changes)
    notices: list[str] = []
    model = RewardModel(module, make_tokenizer(), batch_tokens=128, on_notice=notices.append)
    prompts, responses = some_texts(17)
    with torch.no_grad():
        alone = [module(torch.tensor([ids])).logits.item() for ids in model.encode(prompts, responses)]
    for _ in range(2):
        assert model.score(prompts, responses) == pytest.approx(alone, abs=1e-5)
    assert not model.packed
    assert len(notices) == 1
    assert notices[0].startswith(f"this reward model scores padded batches, more slowly than packed ones: {reason}")


def test_packed_passes_hold_every_token_once_within_the_budget_and_no_padding() -> None:
    module = make_module()
    model = RewardModel(module, make_tokenizer(), batch_tokens=50)
    passes: list[Any] = []
    own = module.config._attn_implementation
    prompts, responses = some_texts(37)
    hook = module.base_model.register_forward_pre_hook(lambda _, __, kwargs: passes.append(kwargs), with_kwargs=True)
    model.score(prompts, responses)
    hook.remove()
    given: list[list[int]] = []
    for inputs in passes:
        ids, bounds = inputs["input_ids"][0].tolist(), inputs["cu_seq_lens_q"].tolist()
        given += [ids[start:stop] for start, stop in pairwise(bounds)]
        assert len(ids) == bounds[-1] <= 50
    assert len(passes) < 20
    assert sorted(given) == sorted(model.encode(prompts, responses))
    assert module.config._attn_implementation == own  # the module is left as it was


def test_a_text_longer_than_a_pass_runs_alone() -> None:
    module = make_module()
    prompts, responses = some_texts(9)
    scores = RewardModel(module, make_tokenizer()).score(prompts, responses)
    assert RewardModel(module, make_tokenizer(), batch_tokens=3).score(prompts, responses) == pytest.approx(
        scores, abs=1e-5
    )


def test_a_head_with_a_bias_adds_it() -> None:
    module = make_module()
    plain = RewardModel(module, make_tokenizer()).score(*some_texts(5))
    module.score.bias = torch.nn.Parameter(torch.tensor([3.0]))
    assert RewardModel(module, make_tokenizer()).score(*some_texts(5)) == pytest.approx([s + 3 for s in plain])


def test_the_head_of_a_bf16_model_does_not_round_its_scores() -> None:
    module = make_module(dtype=torch.bfloat16)
    scores = RewardModel(module, make_tokenizer()).score(*some_texts(40))
    rounded = torch.tensor(scores).bfloat16().float().tolist()
    assert sum(a != b for a, b in zip(scores, rounded, strict=True)) > 30
    assert module.score.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("responses", [[], ["", "", ""]], ids=["no rows", "all empty"])
def test_nothing_to_read_is_scored_too(responses: list[str]) -> None:
    model = RewardModel(make_module(), make_tokenizer(template=None))
    scores = model.score(["a", CHAT, "b"][: len(responses)], responses)
    assert len(scores) == len(responses)
    assert all(torch.tensor(scores).isfinite())


def test_a_text_without_any_token_is_its_end_token() -> None:
    tokenizer = make_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    assert RewardModel(make_module(), tokenizer).encode(["  "], [""]) == [[2]]


def test_truncated_texts_are_counted_each_time() -> None:
    model = RewardModel(make_module(), make_tokenizer(limit=8))
    model.score(["a b c d e f g", "a", "a b c d e f g h"], [" h", " b", ""])
    assert model.truncated == 2
    model.score(["a"], [" b"])
    assert model.truncated == 0


def test_truncated_texts_are_reported_with_the_scores() -> None:
    model = RewardModel(make_module(), make_tokenizer(limit=8))
    roles: Any = SimpleNamespace(rewarder=None, reward_model=model)
    prompts, responses = ["a", "a b c d e f g h"], [" b", " c"]
    rows = [PromptRow(prompt, data_source="", ground_truth="") for prompt in prompts]
    judged = score_responses(roles, rows, responses, seed=0)
    assert judged.truncated == 1
    assert judged.scores == model.score(prompts, responses)


def test_the_models_positions_are_a_limit_too() -> None:
    model = RewardModel(make_module(max_position_embeddings=6), make_tokenizer(limit=10**30))
    assert [len(ids) for ids in model.encode(["a b c d e f g", "a"], ["", ""])] == [6, 2]


def test_a_template_that_refuses_the_messages_is_explained() -> None:
    model = RewardModel(make_module(), make_tokenizer())
    with pytest.raises(ConfigError, match="reward model's chat template refuses a prompt's messages: no system role"):
        model.score([({"role": "system", "content": "a"}, *CHAT)], [" b"])


@pytest.mark.parametrize("budget", [0, 1, 7, 30, 10**6])
def test_batches_hold_all_rows_once_within_the_budget(budget: int) -> None:
    draw = random.Random(1)
    lengths = [draw.randint(1, 12) for _ in range(50)]
    batches = batches_by_length(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


def test_batches_by_length_hold_little_padding() -> None:
    draw = random.Random(2)
    lengths = [draw.randint(10, 1000) for _ in range(500)]
    padded = sum(len(batch) * max(lengths[i] for i in batch) for batch in batches_by_length(lengths, 16384))
    assert padded < 1.1 * sum(lengths)
