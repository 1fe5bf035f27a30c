"""Fifth step of the data's road: a prompt as token ids of bounded length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from verlcli.engine.types import Message
from verlcli.errors import ConfigError

Truncation = Literal["error", "left", "right", "middle"]  # which part is cut away; middle keeps both ends


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt's token ids, at most `max_prompt_length` of them."""

    ids: list[int]
    truncated: bool


_KEEP: dict[str, Callable[[list[int], int], list[int]]] = {
    "left": lambda ids, limit: ids[-limit:],
    "right": lambda ids, limit: ids[:limit],
    "middle": lambda ids, limit: ids[: limit // 2] + ids[len(ids) - (limit - limit // 2) :],
}


def encode_prompt(
    tokenizer: Any,
    prompt: str | Sequence[Message],
    max_prompt_length: int,
    truncation: Truncation,
    *,
    where: str | None = None,
) -> Encoded:
    """Token ids of a prompt, ready to be continued by the model.

    Chat messages go through the tokenizer's chat template with the generation prompt; without a template their
    contents are joined by newlines. Plain text is encoded as it is, with the tokenizer's beginning token and no end.

    Args:
        tokenizer: a transformers tokenizer.
        max_prompt_length: tokens, at least 1.
        where: the row's place, for messages.

    Raises:
        ConfigError: longer than the limit under `truncation: error`, no tokens, or refused by the chat template.
    """
    ids = _text_ids(tokenizer, prompt) if isinstance(prompt, str) else _chat_ids(tokenizer, prompt, where)
    if not ids:
        raise ConfigError("the prompt has no tokens", where=where, fix="write a prompt the tokenizer knows")
    if len(ids) <= max_prompt_length:
        return Encoded(ids, truncated=False)
    if truncation == "error":
        raise ConfigError(
            f"the prompt has {len(ids)} tokens, data.max_prompt_length is {max_prompt_length}",
            where=where,
            fix=f"set data.max_prompt_length to {len(ids)} or more, or data.truncation to left, right or middle",
        )
    return Encoded(_KEEP[truncation](ids, max_prompt_length), truncated=True)


def _text_ids(tokenizer: Any, text: str) -> list[int]:
    ids = list(tokenizer.encode(text))
    # Some tokenizers close every text; a prompt must stay open.
    end = tokenizer.eos_token_id
    if ids and end is not None and ids[-1] == end and not text.endswith(tokenizer.eos_token):
        ids.pop()
    return ids


def _chat_ids(tokenizer: Any, messages: Sequence[Message], where: str | None) -> list[int]:
    if not getattr(tokenizer, "chat_template", None):
        return _text_ids(tokenizer, "\n".join(message["content"] for message in messages))
    from jinja2 import TemplateError

    try:
        ids = tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=True, add_generation_prompt=True, return_dict=False
        )
    except (TemplateError, TypeError, ValueError) as error:  # also a set of named templates without a default
        raise ConfigError(
            f"the model's chat template refuses these messages: {error}",
            where=where,
            fix="use the roles and their order that the model knows (user and assistant in turn)",
        ) from error
    return list(ids)
