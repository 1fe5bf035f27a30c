"""Greedy evaluation on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.engine.rollout import Sampling
from verlcli.engine.scoring import Judged, decode_responses, score_responses, to_batch

if TYPE_CHECKING:
    from verlcli.engine.roles import Roles
    from verlcli.engine.types import PromptRow

CHUNK = 256  # prompts generated at once


def evaluate(
    roles: Roles,
    rows: Sequence[PromptRow],
    prompt_ids: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    chunk: int | None,
    seed: int,
) -> tuple[dict[str, float], Judged]:
    """Greedy figures over all prompts: `accuracy` (see `Judged`), mean `reward`, mean `response_length`.

    Raises:
        TrainingFailedError: more samples failed than `reward.max_error_fraction` of all allows.
    """
    texts: list[str] = []
    tokens = 0
    size = chunk or CHUNK
    greedy = replace(sampling, temperature=0.0)
    for start in range(0, len(rows), size):
        rollout = roles.generate(prompt_ids[start : start + size], 1, greedy)
        texts += decode_responses(roles.tokenizer, to_batch(rollout, 1))
        tokens += rollout.num_tokens
    roles.rollout.sleep()
    judged = score_responses(roles, list(rows), texts, seed=seed)
    figures = {"reward": sum(judged.scores) / len(rows), "response_length": tokens / len(rows)}
    return figures | ({} if judged.accuracy is None else {"accuracy": judged.accuracy}), judged
