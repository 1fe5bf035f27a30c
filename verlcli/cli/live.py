"""The live view of a training run: a progress bar and a table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from verlcli.cli.console import stderr
from verlcli.engine.observer import Observer

if TYPE_CHECKING:
    from verlcli.plan import Plan

ROWS = 8
LINE_EVERY_SECONDS = 10.0
PHASES = ("rollout", "reward", "reference", "old_logprobs", "values", "update_critic", "update_actor")


class LiveView(Observer):
    """Shows a run on stderr."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = stderr()
        self._quiet = quiet
        self._fancy = self._console.is_terminal and not quiet
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=ROWS)
        self._accuracy: dict[int, float] = {}
        self._last_line = 0.0
        self._live: Live | None = None
        self._total = 0
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
        )

    def started(self, plan: Plan, run_dir: Path, from_step: int) -> None:
        self._total = plan.total_steps
        self._say(f"run directory: {run_dir}" + (f" (going on after step {from_step})" if from_step else ""))
        if self._fancy:
            self._progress.add_task("training", total=plan.total_steps, completed=from_step)
            self._live = Live(self._render(), console=self._console, refresh_per_second=8, transient=False)
            self._live.start()

    def evaluated(self, step: int, figures: Mapping[str, float]) -> None:
        self._accuracy[step] = figures["accuracy"]
        if not self._fancy:
            self._say(f"step {step}: held-out greedy accuracy {figures['accuracy']:.1%}")
        self._refresh()

    def stepped(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        if self._fancy:
            self._progress.update(self._progress.task_ids[0], completed=row["step"])
            self._refresh()
        elif time.monotonic() - self._last_line >= LINE_EVERY_SECONDS or row["step"] == self._total:
            self._last_line = time.monotonic()
            self._say(_line(row, self._total))

    def warned(self, message: str) -> None:
        self._console.print(f"warning: {message}", style="yellow", markup=False)

    def stopping(self, signal: str) -> None:
        self._say(f"{signal} received: saving, then stopping")

    def closed(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, text: str) -> None:
        if not self._quiet:
            self._console.print(text, markup=False, soft_wrap=True)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._render())

    def _render(self) -> Group:
        return Group(self._table(), self._progress)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in (
            "step",
            "reward",
            "accuracy",
            "held-out",
            "KL",
            "entropy",
            "tokens/s",
            "s/step",
            "where the time goes",
        ):
            table.add_column(name, justify="left" if name.startswith("where") else "right")
        for row in self._rows:
            metrics, step = row["metrics"], row["step"]
            table.add_row(
                str(step),
                f"{metrics['reward']:.3f}",
                f"{metrics['accuracy']:.1%}",
                f"{self._accuracy[step]:.1%}" if step in self._accuracy else "",
                _number(metrics.get("kl")),
                _number(metrics.get("entropy")),
                f"{row['tokens_per_second']['end_to_end']:,.0f}",
                f"{row['seconds']['step']:.2f}",
                shares(row["seconds"]),
            )
        return table


def shares(seconds: Mapping[str, float]) -> str:
    """`rollout 61% update 30% reference 9%`: where a step's time goes, largest first."""
    known = {name.removeprefix("update_"): seconds[name] for name in PHASES if name in seconds}
    largest = sorted(known.items(), key=lambda item: -item[1])[:3]
    return " ".join(f"{name} {value / seconds['step']:.0%}" for name, value in largest)


def _line(row: Mapping[str, Any], total: int) -> str:
    metrics = row["metrics"]
    return (
        f"step {row['step']}/{total}: reward {metrics['reward']:.3f}, accuracy {metrics['accuracy']:.1%}, "
        f"KL {_number(metrics.get('kl'))}, entropy {_number(metrics.get('entropy'))}, "
        f"{row['tokens_per_second']['end_to_end']:,.0f} tokens/s, "
        f"{row['seconds']['step']:.2f} s ({shares(row['seconds'])})"
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
