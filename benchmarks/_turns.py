"""Engines in processes of their own that take turns, so that drift of the machine hits all alike; and their figures.

A worker builds its engine, says `ready`, and then does one unit of work for every line it gets. Between its turns it
waits and computes nothing; its memory is its own, so a peak is the engine's.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOG_TAIL = 3000  # characters shown of a worker that ended


class Channel:
    """The worker's side. What libraries print goes to stderr, so that stdout carries answers alone."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._started = time.perf_counter()

    def ready(self, device: str, **facts: Any) -> None:
        """The engine is built."""
        import torch
        import transformers

        machine = torch.cuda.get_device_name() if device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
        versions = {"machine": machine, "torch": torch.__version__, "transformers": transformers.__version__}
        self.answer(load_seconds=round(time.perf_counter() - self._started, 2), **versions, **facts)

    def turn(self) -> bool:
        """Wait for the next turn; False when there is none."""
        return bool(sys.stdin.readline())

    def answer(self, **facts: Any) -> None:
        self._out.write(json.dumps(facts) + "\n")
        self._out.flush()


def synchronize(device: str) -> None:
    """Wait for a GPU's queued work."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def peak_gib(device: str) -> float:
    """This process's peak of allocated GPU bytes as torch counts them, or on a CPU its largest resident size."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**30
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Worker:
    """The driver's side: `command SETTINGS` as a process, its stderr in a log."""

    def __init__(self, name: str, command: Sequence[str], settings: Mapping[str, Any], folder: Path) -> None:
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{name}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            self.facts = self._read()
        except BaseException:
            self.close()
            raise

    def turn(self) -> dict[str, Any]:
        """One unit of work; what the worker says of it."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise SystemExit(f"{self.name} ended with code {code}; {self._log}:\n{self._log.read_text()[-LOG_TAIL:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Let the process end; it is killed after a minute."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


@dataclass(frozen=True, slots=True)
class Job:
    """How to start one worker."""

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker said: of itself, and of every measured turn."""

    facts: Mapping[str, Any]
    turns: list[dict[str, Any]]

    def values(self, key: str) -> list[float]:
        return [float(turn[key]) for turn in self.turns]


def take_turns(jobs: Sequence[Job], *, turns: int, warm: int, folder: Path, apart: bool) -> dict[str, Outcome]:
    """Run every job `warm + turns` times and keep the last `turns`.

    `apart` runs one job after the other instead, for models that do not fit beside each other.
    """
    if apart:
        alone = [take_turns([job], turns=turns, warm=warm, folder=folder, apart=False) for job in jobs]
        return {name: outcome for one in alone for name, outcome in one.items()}
    with contextlib.ExitStack() as stack:
        workers = []
        for job in jobs:
            workers.append(Worker(job.name, job.command, job.settings, folder))
            stack.callback(workers[-1].close)
        rounds = [{worker.name: worker.turn() for worker in workers} for _ in range(warm + turns)][warm:]
        return {worker.name: Outcome(worker.facts, [one[worker.name] for one in rounds]) for worker in workers}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number of one engine: the median of its turns, with the smallest and largest."""

    engine: str
    figure: str
    values: Sequence[float]
    digits: int = 3

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def shown(self) -> str:
        low, high = min(self.values), max(self.values)
        text = f"{self.median:,.{self.digits}f}"
        return text if low == high else f"{text} ({low:,.{self.digits}f} to {high:,.{self.digits}f})"


def report(
    benchmark: str,
    figures: Iterable[Figure],
    context: Mapping[str, Any],
    facts: Mapping[str, Mapping[str, Any]],
    save: Path | None,
) -> None:
    """Print one JSON line a figure, then a table with a row an engine; append the lines to `save`.

    `context` holds what all engines were given, `facts` what each is.
    """
    figures = list(figures)
    lines = [
        json.dumps(
            {
                "benchmark": benchmark,
                "engine": each.engine,
                "figure": each.figure,
                "median": each.median,
                "least": min(each.values),
                "most": max(each.values),
                "turns": len(each.values),
                **context,
                **facts[each.engine],
            }
        )
        for each in figures
    ]
    print(*lines, sep="\n")
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        with save.open("a") as file:
            file.writelines(line + "\n" for line in lines)
    names = list(dict.fromkeys(each.figure for each in figures))
    print("\n| engine | " + " | ".join(names) + " |\n|---" + "|---" * len(names) + "|")
    for engine in dict.fromkeys(each.engine for each in figures):
        own = {each.figure: each.shown for each in figures if each.engine == engine}
        print(f"| {engine} | " + " | ".join(own.get(name, "") for name in names) + " |")
