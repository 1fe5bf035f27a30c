"""Declarative RL post-training of language models: check, plan, train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["PPOTrainer", "__version__"]

if TYPE_CHECKING:
    from verlcli.engine.trainer import PPOTrainer


def __getattr__(name: str) -> Any:
    # Lazy, so that `verl --help`, `validate` and `plan` never load torch.
    if name == "PPOTrainer":
        from verlcli.engine.trainer import PPOTrainer

        return PPOTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
