"""How much memory each phase of a step takes, from sizes alone: no torch, no weights."""

from __future__ import annotations

from verlcli.plan.memory.make import plan_memory
from verlcli.plan.memory.types import PHASES, Component, DeviceMemory, Part, Phase, PhaseMemory

__all__ = ["PHASES", "Component", "DeviceMemory", "Part", "Phase", "PhaseMemory", "plan_memory"]
