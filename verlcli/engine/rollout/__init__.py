"""Rollout engines: one file each beside `_base.py`."""

from __future__ import annotations

from verlcli.engine.rollout._base import Rollout, RolloutEngine, Sampling
from verlcli.engine.rollout.build import build_rollout
from verlcli.engine.rollout.graph import GraphRollout
from verlcli.engine.rollout.hf import HfRollout

__all__ = ["GraphRollout", "HfRollout", "Rollout", "RolloutEngine", "Sampling", "build_rollout"]
