"""A `Plan` for people (one screen) and for programs (JSON as in `schemas/plan.schema.json`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from verlcli.plan.types import Note, Plan

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA_VERSION = 1


def plan_document(plan: Plan) -> dict[str, Any]:
    """Plain values with the keys of `schemas/plan.schema.json`."""
    document = asdict(plan)
    document["batch"]["equation"] = list(plan.batch.equation)
    document["placement"] = [{**asdict(role), "devices": list(role.devices)} for role in plan.placement]
    document["notes"] = [asdict(note) for note in plan.notes]
    return {"schema_version": SCHEMA_VERSION, **document}


def plan_report(plan: Plan, *, refusal: Note | None = None) -> RenderableType:
    """The plan on one screen; `refusal` says under the start command why it would not start here."""
    from rich.console import Group
    from rich.text import Text

    steps = f"{plan.total_steps} steps x {plan.batch.updates} update{'s' if plan.batch.updates > 1 else ''}"
    return Group(
        Text(f"{plan.name}: {plan.backend} backend on {plan.device}, {steps}, into {plan.run_dir}", style="bold"),
        Text("\nbatch", style="bold"),
        *(Text(f"  {line}") for line in plan.batch.equation),
        Text("\nroles", style="bold"),
        _roles(plan),
        *_notes(plan),
        Text("\nstart", style="bold"),
        Text(f"  {plan.command}"),
        *([] if refusal is None else [Text(f"  {refusal.severity} {refusal.path}: {refusal.message}", style="yellow")]),
    )


def _roles(plan: Plan) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table("role", "devices", "engine", "dtype", "why", box=None, padding=(0, 2), header_style="dim")
    for role in plan.placement:
        cells = (role.role, _short(role.devices), role.engine, role.dtype, role.reason)
        table.add_row(*map(Text, cells))  # Text: a path with [brackets] is no markup
    return table


def _short(devices: tuple[str, ...]) -> str:
    """`cuda:0 ... cuda:7` as `cuda:0-7`."""
    if len(devices) > 1:
        ids = [int(device.removeprefix("cuda:")) for device in devices]
        if ids == list(range(ids[0], ids[0] + len(ids))):
            return f"cuda:{ids[0]}-{ids[-1]}"
    return ",".join(devices)


def _notes(plan: Plan) -> list[RenderableType]:
    """One line a message; keys that share one stand together."""
    from rich.text import Text

    if not plan.notes:
        return []
    keys: dict[tuple[str, str], list[str]] = {}
    for note in plan.notes:
        keys.setdefault((note.severity, note.message), []).append(note.path)
    styles = {"warning": "yellow", "info": ""}
    lines = [
        Text(f"  {severity} {', '.join(paths)}: {message}", style=styles[severity])
        for (severity, message), paths in keys.items()
    ]
    return [Text("\nnotes", style="bold"), *lines]
