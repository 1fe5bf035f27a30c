"""What flows between the stages of a training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Message = Mapping[str, str]  # {"role": ..., "content": ...}


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One row of a dataset in verl's format."""

    prompt: str | tuple[Message, ...]  # chat messages, or plain text
    data_source: str
    ground_truth: str
    extra_info: Mapping[str, Any] = field(default_factory=dict)


class Dataset(Protocol):
    """Random access to prompt rows."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> PromptRow: ...
