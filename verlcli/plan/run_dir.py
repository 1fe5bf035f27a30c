"""Where the run's files go; decided here, made by the engine."""

from __future__ import annotations

from verlcli.config.types import Config


def run_dir(config: Config, name: str) -> str:
    """`trainer.output_dir`, or `runs/NAME` under the current folder."""
    return config.trainer.output_dir or f"runs/{name}"
