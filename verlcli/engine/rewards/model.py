"""Reward model: a sequence classifier that scores prompt and response as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.engine.types import Message

BATCH_TOKENS = 8192  # of one forward pass, padding included; more of them would hold more padding
MAX_LENGTH = 4096  # tokens, where neither tokenizer nor model states a limit
_NO_LIMIT = 10**9  # tokenizers state numbers above it for "none"


class RewardModel:
    """Scores with `AutoModelForSequenceClassification` (one label), in the module's dtype, and its own tokenizer.

    Args:
        module: a classifier with one label, where and as it shall run.
        tokenizer: the classifier's; its chat template, where it has one, writes chat prompts.
        batch_tokens: tokens of one forward pass, padding included; a longer text runs alone.

    Attributes:
        truncated: texts of the last `score` that lost their start, being longer than the model reads.
    """

    def __init__(self, module: Any, tokenizer: Any, *, batch_tokens: int = BATCH_TOKENS) -> None:
        self._module = module
        self._tokenizer = tokenizer
        self._batch_tokens = batch_tokens
        config = module.config.get_text_config()
        pad_id = config.pad_token_id
        self._pad_id: int | None = None if pad_id is None or pad_id < 0 else pad_id  # older files say -1 for none
        self._limit = _limit(tokenizer, config)
        self.truncated = 0
        tokenizer.truncation_side = "left"  # the response, at the end, is what is judged

    @torch.no_grad()
    def score(self, prompts: Sequence[str | tuple[Message, ...]], responses: Sequence[str]) -> list[float]:
        """One fp32 score for each of B (prompt, response), in their order; B may be 0.

        Raises:
            ConfigError: the model's chat template refuses a prompt's messages.
        """
        rows = self.encode(prompts, responses)
        decoder = _is_decoder(self._module)
        # Of other classifiers, those that know no padding judge one text at a time.
        budget = self._batch_tokens if decoder or self._pad_id is not None else 0
        judge = self._judge_last_token if decoder else self._judge
        scores = [0.0] * len(rows)
        for batch in batches_by_length([len(row) for row in rows], budget):
            for i, score in zip(batch, judge([rows[i] for i in batch]).tolist(), strict=True):
                scores[i] = score
        return scores

    def encode(self, prompts: Sequence[str | tuple[Message, ...]], responses: Sequence[str]) -> list[list[int]]:
        """Token ids of each prompt with its response, the last ones where they are more than the model reads.

        Chat prompts go through the chat template, or are joined by newlines without one; plain text stays plain.
        """
        texts = [self._text(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
        rows = self._encoded(texts)
        self.truncated = sum(len(row) > self._limit for row in rows)
        return [
            row if len(row) <= self._limit else self._encoded([text], truncation=True, max_length=self._limit)[0]
            for row, text in zip(rows, texts, strict=True)
        ]

    def _text(self, prompt: str | tuple[Message, ...], response: str) -> tuple[str, bool]:
        """The text, and whether a template wrote it, with BOS and the like."""
        if isinstance(prompt, str):
            return prompt + response, False
        messages = [*map(dict, prompt), {"role": "assistant", "content": response}]
        if not self._tokenizer.chat_template:
            return "\n".join(message["content"] for message in messages), False
        from jinja2 import TemplateError

        try:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False)), True
        except (TemplateError, TypeError, ValueError) as error:
            raise ConfigError(
                f"the reward model's chat template refuses a prompt's messages: {error}",
                where="reward_model.path",
                fix="use the roles and their order that the reward model knows, or plain-text prompts",
            ) from error

    def _encoded(self, texts: Sequence[tuple[str, bool]], **limits: Any) -> list[list[int]]:
        rows: list[list[int]] = [[]] * len(texts)
        for templated in {written for _, written in texts}:
            members = [i for i, (_, written) in enumerate(texts) if written == templated]
            encoded = self._tokenizer(
                [texts[i][0] for i in members], add_special_tokens=not templated, verbose=False, **limits
            )
            for i, ids in zip(members, encoded["input_ids"], strict=True):
                rows[i] = list(ids) or [self._tokenizer.eos_token_id]  # nothing at all cannot be judged
        return rows

    def _judge_last_token(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Scores `[B]` of a decoder: its head on each text's last token, in fp32, where bf16 would make scores tie.

        As in transformers, padding at a text's own end is no part of it; a model without a pad token has none.
        """
        ids, mask = self._padded(rows)
        hidden = self._module.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        real = mask if self._pad_id is None else (ids != self._pad_id).long()
        last = (real * torch.arange(ids.shape[1], device=ids.device)).argmax(-1)
        head = self._module.score
        chosen = hidden[torch.arange(len(rows), device=ids.device), last].float()
        scores: Tensor = linear(chosen, head.weight.float(), None if head.bias is None else head.bias.float())
        return scores[:, 0]

    def _judge(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Scores `[B]` of any other classifier."""
        ids, mask = self._padded(rows)
        logits: Tensor = self._module(input_ids=ids, attention_mask=mask).logits
        return logits[:, 0].float()

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Ids and mask `[B, T]`, padded on the right, which every model's positions bear."""
        width = max(map(len, rows))
        pad_id = self._pad_id or 0
        device = next(self._module.parameters()).device
        ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        return ids, (torch.arange(width, device=device) < lengths[:, None]).long()


def _is_decoder(module: Any) -> bool:
    from transformers.modeling_layers import GenericForSequenceClassification

    return isinstance(module, GenericForSequenceClassification)


def batches_by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Numbers of all rows, longest first, in batches of at most `budget` padded tokens, and of at least one row."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        size = max(1, budget // lengths[order[start]])
        batches.append(order[start : start + size])
        start += size
    return batches


def _limit(tokenizer: Any, text_config: Any) -> int:
    stated = (tokenizer.model_max_length, getattr(text_config, "max_position_embeddings", None))
    return min((limit for limit in stated if limit is not None and 0 < limit < _NO_LIMIT), default=MAX_LENGTH)
