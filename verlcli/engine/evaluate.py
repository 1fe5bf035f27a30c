"""Greedy evaluation on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from verlcli.engine.rollout import Sampling
from verlcli.engine.stages import score_responses, to_batch

if TYPE_CHECKING:
    from verlcli.engine.roles import Roles
    from verlcli.engine.types import PromptRow

CHUNK = 256  # prompts generated at once


def evaluate(
    roles: Roles,
    rows: Sequence[PromptRow],
    prompt_ids: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    chunk: int | None,
    seed: int,
) -> dict[str, float]:
    """Greedy figures over all prompts: `accuracy` (share with score >= 1), mean `reward`, mean `response_length`."""
    scores: list[float] = []
    right = length = 0.0
    size = chunk or CHUNK
    for start in range(0, len(rows), size):
        part = list(rows[start : start + size])
        rollout = roles.rollout.generate(prompt_ids[start : start + size], 1, Sampling(max_tokens, temperature=0.0))
        part_scores, _, part_right = score_responses(roles, part, to_batch(rollout, 1), seed=seed + start)
        scores += part_scores
        right += part_right * len(part)
        length += rollout.num_tokens
    count = len(rows)
    return {"accuracy": right / count, "reward": sum(scores) / count, "response_length": length / count}
