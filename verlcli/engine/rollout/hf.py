"""Rollout engine `hf`: transformers' own `generate` on the trainer's module; any model, no extra memory for weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from verlcli.engine.batch import left_pad
from verlcli.engine.models import hugging_face
from verlcli.engine.rollout._base import Rollout, Sampling, diverged
from verlcli.engine.rollout.stopping import StopStrings

if TYPE_CHECKING:
    from torch import nn

NEUTRAL: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "num_beams": 1, "use_cache": True}


class _LogprobRecorder:
    """Keeps the log-probability of each sampled token while holding only one step's scores `[B, V]`.

    `generate` calls processors before it samples; the token it drew is the last of the next call's ids.
    """

    def __init__(self) -> None:
        self.columns: list[Tensor] = []
        self._scores: Tensor | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.close(input_ids)
        self._scores = scores.float()
        return scores

    def close(self, input_ids: Tensor) -> None:
        """Account for the last token of `input_ids[B, T]`."""
        if self._scores is not None:
            chosen = self._scores.gather(-1, input_ids[:, -1:]).squeeze(-1)
            self.columns.append(chosen - self._scores.logsumexp(-1))


class HfRollout:
    """Plain `generate` with left-padded prompts, in chunks of `batch_size` sequences."""

    name = "hf"

    def __init__(
        self,
        model: nn.Module,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        batch_size: int | None,
        tokenizer: Any = None,
    ) -> None:
        self._tokenizer = tokenizer  # stop strings need it
        self._model: Any = model
        self.eos_ids = tuple(eos_ids)
        self._pad_id = pad_id
        self._batch_size = batch_size

    def generate(self, prompts: Sequence[Sequence[int]], n: int, sampling: Sampling) -> Rollout:
        """Draw `n` responses for each prompt; see `RolloutEngine.generate`."""
        device = next(self._model.parameters()).device
        repeated = [prompt for prompt in prompts for _ in range(n)]
        prompt_ids, prompt_mask = left_pad(repeated, self._pad_id, device)
        size = self._batch_size or len(repeated)
        parts = [
            self._generate_chunk(prompt_ids[i : i + size], prompt_mask[i : i + size], sampling)
            for i in range(0, len(repeated), size)
        ]
        width = max(tokens.shape[1] for tokens, _ in parts)
        tokens = torch.cat([_pad_right(tokens, width, self._pad_id) for tokens, _ in parts])
        logprobs = torch.cat([_pad_right(logprobs, width, 0.0) for _, logprobs in parts])
        mask = self._response_mask(tokens)
        if sampling.stop:
            mask &= self._until_stop(tokens, mask, sampling.stop)
        return Rollout(
            prompt_ids=prompt_ids,
            prompt_mask=prompt_mask,
            tokens=tokens.masked_fill(~mask, self._pad_id),
            logprobs=logprobs.masked_fill(~mask, 0.0),
            mask=mask,
        )

    @torch.no_grad()
    def _generate_chunk(self, ids: Tensor, mask: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
        from transformers import GenerationConfig, LogitsProcessorList

        settings = GenerationConfig(
            max_new_tokens=sampling.max_tokens,
            do_sample=sampling.temperature > 0,
            eos_token_id=list(self.eos_ids),
            pad_token_id=self._pad_id,
            min_new_tokens=sampling.min_tokens or None,
            **NEUTRAL,
        )
        recorder = _LogprobRecorder()
        with _without_own_defaults(self._model), _divergence_explained():
            sequences = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                generation_config=settings,
                logits_processor=LogitsProcessorList([*_warpers(sampling), recorder]),
                stopping_criteria=self._criteria(sampling, ids.shape[1]),
            )
        recorder.close(sequences)
        return sequences[:, ids.shape[1] :], torch.stack(recorder.columns, dim=1)

    def _response_mask(self, tokens: Tensor) -> Tensor:
        """True up to and including the first EOS, `[B, R]`."""
        is_eos = torch.isin(tokens, torch.tensor(self.eos_ids, device=tokens.device))
        return (is_eos.cumsum(-1) - is_eos.long()) == 0

    def _criteria(self, sampling: Sampling, width: int) -> Any:
        """Ends rows that have completed a stop string; transformers' own criterion fails on some tokenizers."""
        from transformers import StoppingCriteriaList

        def stopped(input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
            rows = input_ids[:, width:].tolist()
            return torch.tensor(
                [self._stops(sampling.stop).length(row) is not None for row in rows], device=input_ids.device
            )

        return StoppingCriteriaList([stopped] if sampling.stop else [])

    def _stops(self, stop: Sequence[str]) -> StopStrings:
        return StopStrings(lambda ids: str(self._tokenizer.decode(ids)), stop)

    def _until_stop(self, tokens: Tensor, mask: Tensor, stop: Sequence[str]) -> Tensor:
        """True up to and including the token that completes a stop string, `[B, R]`."""
        stops = self._stops(stop)
        rows = [row[:n] for row, n in zip(tokens.tolist(), mask.sum(-1).tolist(), strict=True)]
        lengths = torch.tensor([stops.length(row) or len(row) for row in rows], device=tokens.device)
        return torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]

    def load_weights(self, stream: Iterable[tuple[str, Tensor]]) -> None:
        """Nothing to do: this engine generates with the trainer's own module."""

    def shrink(self, sequences: int) -> bool:
        """See `RolloutEngine.shrink`."""
        size = min(self._batch_size or sequences, sequences)
        self._batch_size = max(1, size // 2)
        return size > 1

    def sleep(self) -> None:
        """Nothing is held between rollouts."""

    def wake(self) -> None:
        """Nothing is held between rollouts."""


def _warpers(sampling: Sampling) -> list[Any]:
    """The sampling distribution as processors: `generate` would apply its own after the recorder's."""
    from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers: list[Any] = []
    if sampling.temperature not in (0.0, 1.0):
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.temperature > 0 and sampling.top_k > 0:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.temperature > 0 and sampling.top_p < 1.0:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    return warpers


@contextmanager
def _divergence_explained() -> Iterator[None]:
    """Sampling from logits that are not finite fails deep inside torch; say what it means."""
    try:
        yield
    except RuntimeError as error:
        if "probability tensor" not in str(error) and "device-side assert" not in str(error):
            raise
        raise diverged() from error


@contextmanager
def _without_own_defaults(model: Any) -> Iterator[None]:
    """Keep a model folder's own sampling defaults (top_k, repetition penalty) from bending the policy."""
    from transformers import GenerationConfig

    base = hugging_face(model)
    own, base.generation_config = base.generation_config, GenerationConfig()
    try:
        yield
    finally:
        base.generation_config = own


def _pad_right(rows: Tensor, width: int, value: float) -> Tensor:
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=value)
