"""Reward model: a sequence classifier that scores prompt and response as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from verlcli.engine.types import Message

MAX_LENGTH = 4096  # tokens, when the tokenizer states none


class RewardModel:
    """Scores with `AutoModelForSequenceClassification` (one label) and its own tokenizer."""

    def __init__(self, module: Any, tokenizer: Any, *, batch_size: int = 16) -> None:
        self._module = module
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        if module.config.get_text_config().pad_token_id is None:
            # Classifiers find a row's last token by the pad token.
            module.config.get_text_config().pad_token_id = tokenizer.pad_token_id

    @torch.no_grad()
    def score(self, prompts: Sequence[str | tuple[Message, ...]], responses: Sequence[str]) -> list[float]:
        """One score for each (prompt, response)."""
        texts = [self._text(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
        scores: list[float] = []
        limit = min(self._tokenizer.model_max_length, MAX_LENGTH)
        for start in range(0, len(texts), self._batch_size):
            chunk = texts[start : start + self._batch_size]
            rows = self._tokenizer(chunk, padding=True, truncation=True, max_length=limit, return_tensors="pt")
            device = next(self._module.parameters()).device
            logits = self._module(
                input_ids=rows["input_ids"].to(device), attention_mask=rows["attention_mask"].to(device)
            ).logits
            scores.extend(logits[:, 0].float().tolist())
        return scores

    def _text(self, prompt: str | tuple[Message, ...], response: str) -> str:
        if isinstance(prompt, str):
            return prompt + response
        messages = [*map(dict, prompt), {"role": "assistant", "content": response}]
        if self._tokenizer.chat_template:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False))
        return "\n".join(message["content"] for message in messages)
