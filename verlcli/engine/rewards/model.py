"""Reward model: a sequence classifier that scores prompt and response as text."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verlcli.engine.attention import attention
from verlcli.engine.models import ValueModel
from verlcli.engine.packing import Cost, balance, pack_rows
from verlcli.engine.training import value_forward
from verlcli.engine.training.support import why_not_packed
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.engine.types import Message

# Of one forward pass. Not `training.max_token_len_per_gpu`, which is about the memory of gradients; this fills a GPU.
BATCH_TOKENS = 8192
MAX_LENGTH = 4096  # tokens, where neither tokenizer nor model states a limit
_NO_LIMIT = 10**9  # tokenizers state numbers above it for "none"


class RewardModel:
    """Scores with `AutoModelForSequenceClassification` (one label), in the module's dtype, and its own tokenizer.

    Decoders run packed, like the trainer's micro batches, where that gives the same scores; all others padded.

    Args:
        module: a classifier with one label, where and as it shall run.
        tokenizer: the classifier's; its chat template, where it has one, writes chat prompts.
        batch_tokens: tokens of one forward pass, padding included; a longer text runs alone.
        on_notice: is told where a decoder cannot run packed, and why.

    Attributes:
        packed: whether texts run packed.
        truncated: texts of the last `score` that lost their start, being longer than the model reads.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        *,
        batch_tokens: int = BATCH_TOKENS,
        on_notice: Callable[[str], None] = warnings.warn,
    ) -> None:
        self._module = module
        self._tokenizer = tokenizer
        self._batch_tokens = batch_tokens
        config = module.config.get_text_config()
        pad_id = config.pad_token_id
        self._pad_id: int | None = None if pad_id is None or pad_id < 0 else pad_id  # older files say -1 for none
        self._limit = _limit(tokenizer, config)
        self.truncated = 0
        tokenizer.truncation_side = "left"  # the response, at the end, is what is judged
        self._scorer = _scorer(module) if _is_decoder(module) else None
        reason = None if self._scorer is None else why_not_packed(self._scorer, value_forward(self._scorer))
        self.packed = self._scorer is not None and reason is None
        if reason is not None:
            on_notice(f"this reward model scores padded batches, more slowly than packed ones: {reason}")

    @torch.no_grad()
    def score(self, prompts: Sequence[str | tuple[Message, ...]], responses: Sequence[str]) -> list[float]:
        """One fp32 score for each of B (prompt, response), in their order; B may be 0.

        Raises:
            ConfigError: the model's chat template refuses a prompt's messages.
        """
        rows = self.encode(prompts, responses)
        batches = self._batches([len(row) for row in rows])
        with attention(self._module) if self.packed else nullcontext():
            judged = [self._judge([rows[i] for i in batch]) for batch in batches]
        scores = [0.0] * len(rows)
        for batch, part in zip(batches, judged, strict=True):  # now, when the device has all passes to do
            for i, score in zip(batch, part.tolist(), strict=True):
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

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Numbers of all rows, by the forward pass in which they run."""
        if self.packed:
            return balance(lengths, self._batch_tokens, Cost(1.0, 0.0))
        # Of classifiers that are no decoders, those that know no padding judge one text at a time.
        alone = self._scorer is None and self._pad_id is None
        return batches_by_length(lengths, 0 if alone else self._batch_tokens)

    def _judge(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Scores `[B]`; a decoder's are its head on each text's last token, in fp32, where bf16 would make scores tie.

        As in transformers, padding at a text's own end is no part of it; a model without a pad token has none.
        """
        if self._scorer is None:
            ids, mask = self._padded(rows)
            logits: Tensor = self._module(input_ids=ids, attention_mask=mask).logits
            return logits[:, 0].float()
        if self.packed:
            packed = pack_rows([self._without_padding(row) for row in rows], self._device)
            return self._scorer.values(self._scorer.body(**packed.model_inputs())[0, packed.cu_seqlens[1:] - 1])
        ids, mask = self._padded(rows)
        hidden = self._scorer.body(input_ids=ids, attention_mask=mask, use_cache=False)
        real = mask if self._pad_id is None else (ids != self._pad_id).long()
        last = (real * torch.arange(ids.shape[1], device=ids.device)).argmax(-1)
        return self._scorer.values(hidden[torch.arange(len(rows), device=ids.device), last])

    def _without_padding(self, row: Sequence[int]) -> Sequence[int]:
        """`row` up to its last token that is no padding, or its first token: no earlier one sees those that follow."""
        end = len(row)
        while end > 1 and row[end - 1] == self._pad_id:
            end -= 1
        return row[:end]

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Ids and mask `[B, T]`, padded on the right, which every model's positions bear."""
        width = max(map(len, rows))
        pad_id = self._pad_id or 0
        ids = torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], device=self._device)
        lengths = torch.tensor([len(row) for row in rows], device=self._device)
        return ids, (torch.arange(width, device=self._device) < lengths[:, None]).long()

    @property
    def _device(self) -> torch.device:
        device: torch.device = next(self._module.parameters()).device
        return device


def _is_decoder(module: Any) -> bool:
    from transformers.modeling_layers import GenericForSequenceClassification

    return isinstance(module, GenericForSequenceClassification)


@torch.no_grad()
def _scorer(classifier: Any) -> ValueModel:
    """A decoder classifier as a critic, with a copy of its head in fp32."""
    head = classifier.score
    scorer = ValueModel(classifier, classifier.base_model, head.in_features)
    scorer.value_head.weight.copy_(head.weight)
    if head.bias is not None:
        scorer.value_head.bias.copy_(head.bias)
    return scorer


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
