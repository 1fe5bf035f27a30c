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

from verlcli.cli.console import figure, stderr
from verlcli.engine.observer import Observer

if TYPE_CHECKING:
    from verlcli.plan import Plan

ROWS = 8
LINE_EVERY_SECONDS = 10.0
PHASES = ("rollout", "reward", "reference", "old_logprobs", "values", "update_critic", "update_actor")
TIMES = "where the time goes"
COLUMNS: tuple[tuple[int, tuple[str, ...]], ...] = (  # least width of the terminal
    (120, ("step", "reward", "accuracy", "held-out", "KL", "entropy", "tokens/s", "s/step", TIMES)),
    (76, ("step", "reward", "accuracy", "held-out", "KL", "tokens/s", "s/step")),
    (0, ("step", "reward", "held-out", "s/step")),
)


class LiveView(Observer):
    """Shows a run on stderr."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = stderr()
        self._quiet = quiet
        self._fancy = self._console.is_terminal and not quiet
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=ROWS)
        self._held_out: dict[int, str] = {}
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
        self._held_out[step] = _judged(figures)
        if not self._fancy:
            self._say(f"step {step}: held-out greedy {_judged_in_words(figures)}")
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
        shown = columns_for(self._console.width)
        for name in shown:
            table.add_column(name, justify="left" if name == TIMES else "right", no_wrap=True)
        for row in self._rows:
            cells = self._cells(row)
            table.add_row(*(cells[name] for name in shown))
        return table

    def _cells(self, row: Mapping[str, Any]) -> dict[str, str]:
        metrics, step = row["metrics"], row["step"]
        return {
            "step": str(step),
            "reward": figure(metrics["reward"], ".3f"),
            "accuracy": _judged(metrics) if "accuracy" in metrics else "-",
            "held-out": self._held_out.get(step, ""),
            "KL": _number(metrics.get("kl")),
            "entropy": _number(metrics.get("entropy")),
            "tokens/s": f"{row['tokens_per_second']['end_to_end']:,.0f}",
            "s/step": f"{row['seconds']['step']:.2f}",
            TIMES: shares(row["seconds"]),
        }


def columns_for(width: int) -> tuple[str, ...]:
    """The table's columns that fit a terminal of `width` characters on one line each."""
    return next(columns for least, columns in COLUMNS if width >= least)


def shares(seconds: Mapping[str, float]) -> str:
    """`rollout 61% update 30% reference 9%`: where a step's time goes, largest first."""
    known = {name.removeprefix("update_"): seconds[name] for name in PHASES if name in seconds}
    largest = sorted(known.items(), key=lambda item: -item[1])[:3]
    return " ".join(f"{name} {value / seconds['step']:.0%}" for name, value in largest)


def _line(row: Mapping[str, Any], total: int) -> str:
    metrics = row["metrics"]
    return (
        f"step {row['step']}/{total}: reward {figure(metrics['reward'], '.3f')}, "
        + (f"accuracy {_judged(metrics)}, " if "accuracy" in metrics else "")
        + f"KL {_number(metrics.get('kl'))}, entropy {_number(metrics.get('entropy'))}, "
        f"{row['tokens_per_second']['end_to_end']:,.0f} tokens/s, "
        f"{row['seconds']['step']:.2f} s ({shares(row['seconds'])})"
    )


def _judged(figures: Mapping[str, float]) -> str:
    """The accuracy; the reward where only a reward model judges."""
    return f"{figures['accuracy']:.1%}" if "accuracy" in figures else figure(figures["reward"], ".3f")


def _judged_in_words(figures: Mapping[str, float]) -> str:
    return f"{'accuracy' if 'accuracy' in figures else 'reward'} {_judged(figures)}"


def _number(value: float | None) -> str:
    return "-" if value is None else figure(value, ".4f")
