"""What the trainer tells whoever shows it: the command line's live view, or nobody."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from verlcli.plan.types import Plan


class Observer:
    """Does nothing; override what you want to see."""

    def started(self, plan: Plan, run_dir: Path, from_step: int) -> None:
        """Models are loaded and the first step follows; `from_step` > 0 when resumed."""

    def evaluated(self, step: int, figures: Mapping[str, float]) -> None:
        """Greedy evaluation on held-out prompts at `step` (0: before training)."""

    def stepped(self, row: Mapping[str, Any]) -> None:
        """One training step is done; `row` is its line in `metrics.jsonl`."""

    def warned(self, message: str) -> None:
        """Something the user should know, while training goes on."""

    def saved(self, path: Path) -> None:
        """A checkpoint is complete."""

    def stopping(self, signal: str) -> None:
        """A signal was taken; the run stops after saving."""

    def closed(self) -> None:
        """No more calls follow."""
