"""Prompts as token ids, with real tokenizers."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from verlcli.engine.data import encode_prompt
from verlcli.errors import ConfigError

WORDS = ["<unk>", "<s>", "</s>", "user", "assistant", "system", ":", *"abcdefghij"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{{ m.role }} : {{ m.content }} {% endfor %}{% if add_generation_prompt %}assistant :{% endif %}"
)


def make_tokenizer(*, frame: str = "<s> $A </s>", template: str | None = TEMPLATE) -> Any:
    inner = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = Whitespace()
    inner.post_processor = TemplateProcessing(single=frame, special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = template
    return tokenizer


def words(ids: list[int]) -> str:
    return " ".join(WORDS[token] for token in ids)


USER = ({"role": "user", "content": "a b"},)


def test_messages_go_through_the_chat_template_with_the_generation_prompt() -> None:
    assert words(encode_prompt(make_tokenizer(), USER, 20, "error").ids) == "user : a b assistant :"


def test_without_a_chat_template_contents_are_joined() -> None:
    messages = ({"role": "system", "content": "a"}, {"role": "user", "content": "b c"})
    assert words(encode_prompt(make_tokenizer(template=None), messages, 20, "error").ids) == "<s> a b c"


@pytest.mark.parametrize("frame", ["<s> $A </s>", "<s> $A", "$A </s>", "$A"])
def test_plain_text_is_left_open_and_keeps_its_beginning(frame: str) -> None:
    ids = encode_prompt(make_tokenizer(frame=frame), "a b", 20, "error").ids
    assert words(ids) == frame.replace("$A", "a b").removesuffix(" </s>")


@pytest.mark.parametrize(
    ("truncation", "kept"), [("left", "h i j"), ("right", "a b c"), ("middle", "a i j"), ("error", None)]
)
def test_a_long_prompt_is_cut_as_asked(truncation: Any, kept: str | None) -> None:
    tokenizer = make_tokenizer(frame="$A")
    if kept is None:
        with pytest.raises(ConfigError, match=r"10 tokens, data.max_prompt_length is 3") as caught:
            encode_prompt(tokenizer, "a b c d e f g h i j", 3, truncation, where="rows.jsonl:7")
        assert caught.value.where == "rows.jsonl:7"
        return
    encoded = encode_prompt(tokenizer, "a b c d e f g h i j", 3, truncation)
    assert (words(encoded.ids), encoded.truncated) == (kept, True)


@pytest.mark.parametrize("truncation", ["left", "right", "middle"])
@pytest.mark.parametrize("limit", range(1, 11))
def test_a_cut_prompt_has_exactly_the_limit(truncation: Any, limit: int) -> None:
    encoded = encode_prompt(make_tokenizer(frame="$A"), "a b c d e f g h i j", limit, truncation)
    assert len(encoded.ids) == limit
    assert encoded.truncated == (limit < 10)


def test_a_prompt_of_exactly_the_limit_is_whole() -> None:
    assert not encode_prompt(make_tokenizer(frame="$A"), "a b c", 3, "error").truncated


def test_a_template_that_refuses_the_roles_is_explained() -> None:
    with pytest.raises(ConfigError, match="chat template refuses these messages: no system role") as caught:
        encode_prompt(make_tokenizer(), ({"role": "system", "content": "a"},), 20, "error", where="a.jsonl:1")
    assert caught.value.fix


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"tool_use": TEMPLATE}, "refuses these messages"),
        ("{{ messages[0].content + 1 }}", "refuses these messages: can only concatenate str"),
        ("{{ nothing.there }}", "refuses these messages: 'nothing' is undefined"),
        ("{% for %}", "refuses these messages"),
    ],
    ids=["named, without a default", "type error", "undefined", "not a template"],
)
def test_a_broken_template_is_explained_too(template: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        encode_prompt(make_tokenizer(template=template), USER, 20, "error")


def test_a_prompt_without_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="no tokens"):
        encode_prompt(make_tokenizer(frame="$A"), "   ", 3, "left")
