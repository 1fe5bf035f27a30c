"""What goes into vLLM for a rollout and what comes out of it, as plain values: needs no vLLM."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from verlcli.engine.batch import left_pad
from verlcli.engine.models import hugging_face
from verlcli.engine.rollout._base import Rollout, Sampling, diverged
from verlcli.engine.rollout.stopping import StopStrings
from verlcli.errors import ConfigError, TrainingFailedError

LOWEST_TEMPERATURE = 0.01  # vLLM silently raises lower ones to it


def write_skeleton(model: Any, tokenizer: Any, eos_ids: Sequence[int], folder: str) -> None:
    """A model folder without weights, so that a hub id, a GGUF file or a package's model all work alike."""
    base = hugging_face(model)
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]
    config.eos_token_id = list(eos_ids)
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def sampling_arguments(sampling: Sampling, n: int, eos_ids: Sequence[int]) -> dict[str, Any]:
    """Arguments of `vllm.SamplingParams`.

    Raises:
        ConfigError: a temperature above 0 that vLLM would raise.
    """
    if 0 < sampling.temperature < LOWEST_TEMPERATURE:
        raise ConfigError(
            f"vLLM samples at {LOWEST_TEMPERATURE} and above, {sampling.temperature} is asked for",
            where="rollout.temperature",
            fix=f"set rollout.temperature to {LOWEST_TEMPERATURE} or more, or to 0 for greedy",
        )
    return {
        "n": n,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "max_tokens": sampling.max_tokens,
        "min_tokens": min(sampling.min_tokens, sampling.max_tokens),
        "stop": list(sampling.stop),
        "stop_token_ids": list(eos_ids),
        "ignore_eos": True,  # ours, above, are all there are
        "logprobs": 0,  # of the drawn token alone
        "flat_logprobs": True,
        "detokenize": bool(sampling.stop),
        "skip_special_tokens": False,  # a stop string may be one
    }


def to_rollout(
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Any],
    *,
    pad_id: int,
    device: torch.device,
    stops: StopStrings | None = None,
) -> Rollout:
    """vLLM's `CompletionOutput`s as a `Rollout`; `answers[B]` in prompt order, B a multiple of the prompts.

    `stops` cuts what vLLM let run on: it looks for no stop string among the first `min_tokens`.

    Raises:
        TrainingFailedError: log-probabilities that are not finite, or an answer that vLLM gave up.
    """
    rows = [list(answer.token_ids) for answer in answers]
    if stops is not None:
        rows = [row[: stops.length(row)] for row in rows]
    lengths = torch.tensor([len(row) for row in rows])
    mask = torch.arange(max(1, int(lengths.max()))) < lengths[:, None]
    tokens = torch.full(mask.shape, pad_id, dtype=torch.long)
    logprobs = torch.zeros(mask.shape)
    for i, (row, answer) in enumerate(zip(rows, answers, strict=True)):
        if answer.finish_reason not in ("stop", "length"):
            raise TrainingFailedError(
                f"vLLM gave an answer up ({answer.finish_reason})",
                where="rollout",
                fix="go on from the last checkpoint, or set rollout.name: graph",
            )
        tokens[i, : len(row)] = torch.tensor(row, dtype=torch.long)
        # The drawn token stands first among those of its position.
        drawn = answer.logprobs.start_indices[: len(row)]
        logprobs[i, : len(row)] = torch.tensor([answer.logprobs.logprobs[k] for k in drawn])
    if not bool(logprobs.isfinite().all()):
        raise diverged()
    n = len(answers) // len(prompts)
    prompt_ids, prompt_mask = left_pad([prompt for prompt in prompts for _ in range(n)], pad_id, device)
    return Rollout(prompt_ids, prompt_mask, tokens.to(device), logprobs.to(device), mask.to(device))
