"""Rules about generation and what it leaves to the update."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config


def shortest_is_not_above_longest(config: Config) -> Iterator[Verdict]:
    """VRL117: responses have to be longer than they may be.

    Why: no response ends before min_tokens, and each is cut at max_response_length: none would ever end by itself.
    Example: `rollout: {min_tokens: 512}` with `data: {max_response_length: 256}`
    Instead: `rollout: {min_tokens: 16}`
    Source: the meaning of the two keys
    """
    shortest, longest = config.rollout.min_tokens, config.data.max_response_length
    if shortest > longest:
        yield Verdict(
            "VRL117",
            ("rollout.min_tokens", "data.max_response_length"),
            f"no response ends before {shortest} tokens, and all are cut at {longest}",
            f"set it to {longest} or less, or raise data.max_response_length",
        )


def recomputation_said_once(config: Config) -> Iterator[Verdict]:
    """VRL118: a switch asks for recomputation, and training.recompute for none.

    Why: enable_gradient_checkpointing and use_recompute mean `training.recompute: full`; where both are written the
        newer key decides, and the memory that the switch was to save is not saved.
    Example: `model: {enable_gradient_checkpointing: true}` with `training: {recompute: none}`
    Instead: `training: {recompute: full}`
    Source: the meaning of the keys
    """
    model = config.model
    for name, on in (
        ("enable_gradient_checkpointing", model.enable_gradient_checkpointing),
        ("use_recompute", model.use_recompute),
    ):
        if on and config.training.recompute == "none":
            yield Verdict(
                "VRL118",
                ("training.recompute", f"model.{name}"),
                f"none, although model.{name} is true: nothing is recomputed",
                f"set it to full, or remove model.{name}",
                "warning",
            )
