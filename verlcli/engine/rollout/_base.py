"""`RolloutEngine`: from prompts to sampled responses with their log-probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from verlcli.errors import TrainingFailedError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. `temperature` 0 is greedy."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    min_tokens: int = 0  # no EOS before
    stop: tuple[str, ...] = ()  # a response ends with the token that completes one of these strings


@dataclass(frozen=True, slots=True)
class Rollout:
    """Responses to P prompts with n samples each, in prompt order: row i answers prompt i // n."""

    prompt_ids: Tensor  # [B, P], left-padded
    prompt_mask: Tensor  # [B, P]
    tokens: Tensor  # [B, R], right-padded
    logprobs: Tensor  # [B, R], of the distribution sampled from; 0 on padding
    mask: Tensor  # [B, R] bool, up to and including EOS

    @property
    def num_tokens(self) -> int:
        """Generated tokens, padding left out."""
        return int(self.mask.sum())


def diverged() -> TrainingFailedError:
    """The error of every engine whose model gives logits that are not finite."""
    return TrainingFailedError(
        "the policy diverged: its logits are not finite, so nothing can be sampled",
        where="rollout",
        fix="lower actor.optim.lr, and go on from an earlier checkpoint with --resume STEP",
    )


class RolloutEngine(Protocol):
    """Generates with the actor's current weights."""

    name: str
    eos_ids: tuple[int, ...]  # tokens that end a response

    def generate(self, prompts: Sequence[Sequence[int]], n: int, sampling: Sampling) -> Rollout:
        """Draw `n` responses for each prompt (token ids). Randomness comes from torch's global generator."""
        ...

    def load_weights(self, stream: Iterable[tuple[str, Tensor]]) -> None:
        """Take new weights; engines that share the trainer's storage have nothing to do."""
        ...

    def shrink(self, sequences: int) -> bool:
        """A call for that many sequences ran out of memory: free all, and generate half as many at once from here on.

        False where fewer at once do not help.
        """
        ...

    def sleep(self) -> None:
        """Give memory back while the trainer works."""
        ...

    def wake(self) -> None:
        """Be ready to generate again."""
        ...
