"""Training engines: one file each beside `_base.py`."""

from __future__ import annotations

from verlcli.engine.training._base import ShardingInfo, TrainingEngine, UpdateResult
from verlcli.engine.training.forwards import policy_forward, value_forward
from verlcli.engine.training.torch_engine import TorchEngine

__all__ = ["ShardingInfo", "TorchEngine", "TrainingEngine", "UpdateResult", "policy_forward", "value_forward"]
