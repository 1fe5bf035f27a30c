"""A `Plan` for people (one screen) and for programs (JSON as in `schemas/plan.schema.json`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from verlcli.plan.memory.report import memory_document, memory_report
from verlcli.plan.types import Note, Plan, StepTime

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA_VERSION = 1
BAR = 30  # characters of a whole step


def plan_document(plan: Plan) -> dict[str, Any]:
    """Plain values with the keys of `schemas/plan.schema.json`."""
    document = asdict(plan)
    document["batch"]["equation"] = list(plan.batch.equation)
    document["placement"] = [{**asdict(role), "devices": list(role.devices)} for role in plan.placement]
    document["notes"] = [asdict(note) for note in plan.notes]
    document["memory"] = None if plan.memory is None else memory_document(plan.memory)
    if plan.time is not None:
        document["time"] |= {"seconds": plan.time.seconds, "tokens_per_second": plan.time.tokens_per_second}
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
        *_estimates(plan),
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


def _estimates(plan: Plan) -> list[RenderableType]:
    from rich.text import Text

    memory = [] if plan.memory is None else memory_report(plan.memory)
    lacks = [Text(f"\n{plan.missing}", style="bold")] if plan.missing else []
    return [*memory, *([] if plan.time is None else _time(plan.time)), *lacks]


def _time(time: StepTime) -> list[RenderableType]:
    """Where a step's seconds go, each with a bar and what binds it."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), show_header=False)
    for phase in time.phases:
        bar = "\u2588" * max(1, round(BAR * phase.seconds / time.seconds))
        table.add_row(phase.name, _seconds(phase.seconds), bar, f"bound by {phase.bound}")
    rate = f"{time.tokens_per_second:,.0f} generated tokens/s end to end"
    title = f"\ntime  about {_seconds(time.seconds)} a step at full length, {rate}"
    return [
        Text(title, style="bold"),
        table,
        Text("  without reward functions; the first steps compile and take longer"),
    ]


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return f"{1e3 * seconds:.2g} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:,.0f} s"


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
