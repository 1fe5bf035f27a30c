"""A device's memory for people, phase by phase, and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verlcli.plan.memory.types import DeviceMemory, Part, PhaseMemory

if TYPE_CHECKING:
    from rich.console import RenderableType

UNITS = {"MiB": 2**20, "GiB": 2**30}
LARGEST = 3  # parts that are explained


def memory_document(memory: DeviceMemory) -> dict[str, Any]:
    """Plain values with the keys of `memory` in `schemas/plan.schema.json`."""
    return {
        "device": memory.device,
        "capacity": memory.capacity,
        "outside": list(memory.outside),
        "worst": memory.worst.phase,
        "fits": memory.fits,
        "rows": memory.rows,
        "refused": memory.refused or None,
        "phases": [_phase_document(phase) for phase in memory.phases],
    }


def _phase_document(phase: PhaseMemory) -> dict[str, Any]:
    parts = [
        {
            "role": part.role,
            "component": part.component,
            "bytes": part.bytes,
            "equation": part.equation,
            "shrunk_by": list(part.shrunk_by),
        }
        for part in phase.parts
    ]
    return {"phase": phase.phase, "bytes": phase.bytes, "parts": parts}


def memory_report(memory: DeviceMemory) -> list[RenderableType]:
    """Components by phase, the verdict, and what is largest in the worst phase, with the keys that lower it."""
    from rich.table import Table
    from rich.text import Text

    unit = _unit(memory)
    components = list(dict.fromkeys(part.component for phase in memory.phases for part in phase.parts))
    table = Table("", *(phase.phase for phase in memory.phases), box=None, padding=(0, 1, 0, 0), header_style="dim")
    for component in components:
        sums = [sum(part.bytes for part in phase.parts if part.component == component) for phase in memory.phases]
        table.add_row(f"  {component}", *(_shown(size, unit) for size in sums))
    table.add_row("  sum", *(_shown(phase.bytes, unit) for phase in memory.phases), style="bold")
    largest = sorted(memory.worst.parts, key=lambda part: -part.bytes)[:LARGEST]
    return [
        Text(f"\nmemory of {memory.device} in {unit}: {verdict(memory)}", style="bold"),
        table,
        *(Text(f"  {_explained(part, unit)}") for part in largest),
    ]


def verdict(memory: DeviceMemory) -> str:
    """Whether it fits, and by which phase and how much."""
    unit, worst, (least, most) = _unit(memory), memory.worst, memory.outside
    device = f"{_shown(worst.bytes + least, unit)} to {_shown(worst.bytes + most, unit)} shown by the device"
    shown = f"{_shown(worst.bytes, unit)} allocated in {worst.phase}, {device}"
    if memory.refused:
        return f"does not fit: {memory.refused}"
    if memory.capacity is None:
        return shown
    says = "fits" if memory.fits else "does not fit"
    if not memory.fits and worst.bytes + least <= memory.capacity:
        says = "may not fit"
    return f"{says} in {_shown(memory.capacity, unit)} {unit}: {shown}"


def _unit(memory: DeviceMemory) -> str:
    return "GiB" if memory.worst.bytes >= UNITS["GiB"] else "MiB"


def _shown(size: int, unit: str) -> str:
    """Two digits behind the point below 10, one above; nothing for nothing."""
    number = size / UNITS[unit]
    return f"{number:.{2 if number < 10 else 1}f}" if size else ""


def _explained(part: Part, unit: str) -> str:
    keys = f"; less by {', '.join(part.shrunk_by)}" if part.shrunk_by else ""
    return f"{part.role} {part.component} {_shown(part.bytes, unit)}: {part.equation}{keys}"
