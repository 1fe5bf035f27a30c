"""DAPO's changes to what is trained on: a soft penalty on length, and groups that have something to say."""

from __future__ import annotations

import torch
from torch import Tensor


def overlong_penalty(lengths: Tensor, *, max_tokens: int, buffer: int, factor: float = 1.0) -> Tensor:
    """`lengths[B]` of responses in tokens -> `penalty[B]`, zero or negative, to be added to the rewards.

    0 up to max_tokens - buffer, then falling linearly to -factor at max_tokens (DAPO, arXiv:2503.14476, equation 13).
    Without a buffer there is none.

    Raises:
        ValueError: `buffer` is negative or larger than `max_tokens`.
    """
    if not 0 <= buffer <= max_tokens:
        raise ValueError(f"a buffer of {buffer} tokens does not lie within responses of {max_tokens}")
    if buffer == 0:
        return torch.zeros(lengths.shape, device=lengths.device)
    excess = (lengths - (max_tokens - buffer)).float()
    return (-excess / buffer * factor).clamp(max=0.0)


def unequal_groups(rewards: Tensor, n: int) -> Tensor:
    """`rewards[P * n]`, n samples of each prompt side by side -> `[P]` bool: whether a group's rewards differ.

    A group of equal rewards has advantages of zero in every algorithm that compares within the group.
    """
    groups = rewards.view(-1, n)
    return groups.amax(dim=1) != groups.amin(dim=1)
