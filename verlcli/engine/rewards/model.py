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
        tokenizer.truncation_side = "left"  # the response, at the end, is what is judged
        if module.config.get_text_config().pad_token_id is None:
            # Classifiers find a row's last token by the pad token.
            module.config.get_text_config().pad_token_id = tokenizer.pad_token_id

    @torch.no_grad()
    def score(self, prompts: Sequence[str | tuple[Message, ...]], responses: Sequence[str]) -> list[float]:
        """One score for each (prompt, response)."""
        ids = [self.encode(prompt, response) for prompt, response in zip(prompts, responses, strict=True)]
        scores: list[float] = []
        for start in range(0, len(ids), self._batch_size):
            chunk = {"input_ids": ids[start : start + self._batch_size]}
            rows = self._tokenizer.pad(chunk, padding=True, return_tensors="pt")
            device = next(self._module.parameters()).device
            logits = self._module(
                input_ids=rows["input_ids"].to(device), attention_mask=rows["attention_mask"].to(device)
            ).logits
            scores.extend(logits[:, 0].float().tolist())
        return scores

    def encode(self, prompt: str | tuple[Message, ...], response: str) -> list[int]:
        """Token ids of prompt and response, the last ones where they are more than the model reads."""
        templated = False
        if isinstance(prompt, str):
            text = prompt + response
        else:
            messages = [*map(dict, prompt), {"role": "assistant", "content": response}]
            templated = bool(self._tokenizer.chat_template)
            text = self._templated(messages) if templated else "\n".join(message["content"] for message in messages)
        limit = min(self._tokenizer.model_max_length, MAX_LENGTH)
        # A template writes BOS and the like itself.
        rows = self._tokenizer(text, truncation=True, max_length=limit, add_special_tokens=not templated)
        return list(rows["input_ids"])

    def _templated(self, messages: list[dict[str, str]]) -> str:
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False))
