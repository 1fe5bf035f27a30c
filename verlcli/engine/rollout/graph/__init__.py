"""Rollout engine `graph`: our own decode loop on the trainer's module; under CUDA graphs on a GPU, plain on a CPU."""

from __future__ import annotations

from verlcli.engine.rollout.graph.engine import GraphRollout

__all__ = ["GraphRollout"]
