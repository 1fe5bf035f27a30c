"""Between a rollout and its rewards: responses as a batch, as text, and what the rewards say about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from verlcli.engine.batch import Batch
from verlcli.engine.rewards import RewardError, RewardInput
from verlcli.engine.rollout import Rollout

if TYPE_CHECKING:
    from verlcli.engine.roles import Roles
    from verlcli.engine.types import PromptRow


def to_batch(rollout: Rollout, n: int) -> Batch:
    """Prompts and responses side by side; rows `i*n .. i*n+n-1` form group i."""
    rows = rollout.tokens.shape[0]
    return Batch(
        input_ids=torch.cat([rollout.prompt_ids, rollout.tokens], dim=1),
        attention_mask=torch.cat([rollout.prompt_mask, rollout.mask.long()], dim=1),
        response_mask=rollout.mask,
        groups=torch.arange(rows, device=rollout.tokens.device) // n,
        rollout_logprobs=rollout.logprobs,
    )


def decode_responses(tokenizer: object, batch: Batch) -> list[str]:
    """Responses as text, special tokens and padding left out."""
    rows = [tokens[mask].tolist() for tokens, mask in zip(batch.responses, batch.response_mask, strict=True)]
    texts: list[str] = tokenizer.batch_decode(rows, skip_special_tokens=True)  # type: ignore[attr-defined]
    return texts


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rewards say about B responses.

    Attributes:
        scores: `[B]`, weighted functions plus reward model.
        accuracy: share that the first reward function by itself scores 1 or more; None without a function.
        errors: samples whose reward failed (scored 0).
        truncated: texts longer than the reward model reads, which lost their start.
    """

    scores: list[float]
    accuracy: float | None
    errors: tuple[RewardError, ...]
    truncated: int = 0


def score_responses(roles: Roles, rows: list[PromptRow], texts: list[str], *, seed: int) -> Judged:
    """Score `texts`, the responses to `rows`.

    Raises:
        TrainingFailedError: more samples failed than `reward.max_error_fraction` allows.
    """
    scores, accuracy, errors = [0.0] * len(texts), None, tuple[RewardError, ...]()
    if roles.rewarder is not None:
        inputs = [
            RewardInput(row.data_source, text, row.ground_truth, row.extra_info)
            for row, text in zip(rows, texts, strict=True)
        ]
        outcome = roles.rewarder.score(inputs, seed=seed)
        roles.rewarder.check(outcome, len(inputs))
        scores, errors = list(outcome.scores), tuple(outcome.errors)
        accuracy = sum(score >= 1.0 for score in outcome.first) / len(texts)
    truncated = 0
    if roles.reward_model is not None:
        judged = roles.reward_model.score([row.prompt for row in rows], texts)
        scores = [a + b for a, b in zip(scores, judged, strict=True)]
        truncated = roles.reward_model.truncated
    return Judged(scores, accuracy, errors, truncated)
