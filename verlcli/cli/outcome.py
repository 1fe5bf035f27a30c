"""The end of a run on the terminal: figures, a plot of the reward, where things are, what to do next."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from verlcli.cli.console import figure, stdout, write

DRAWABLE = 1e12, 1e-12  # largest and smallest size of a number that is drawn as it is


def show_outcome(result: Mapping[str, Any]) -> None:
    """Print a finished run (the document of `schemas/train.schema.json`)."""
    run_dir = Path(result["run_dir"])
    write(reward_plot(run_dir, width=min(100, stdout().width)))
    before, after = result["eval"]["before"], result["eval"]["after"]
    rate = result["tokens_per_second"]
    lines = [
        f"steps        {result['steps']}, {result['step_time_s']:.2f} s each",
        f"reward       {_figure(result['reward']['first'])} -> {_figure(result['reward']['last'])}",
        *([f"held-out     {before:.1%} -> {after:.1%} greedy accuracy"] if before is not None else []),
        f"tokens/s     {rate['generated']:,.0f} generated, {rate['trained']:,.0f} trained, "
        f"{rate['end_to_end']:,.0f} end to end",
        f"peak memory  {result['peak_memory_gib']:.2f} GiB",
        f"checkpoint   {result['checkpoint']}",
        "",
        "next:",
        "  # the policy is a Hugging Face folder",
        f"  {_load_line(result['model'])}",
        "  # train on",
        f"  verl train {run_dir / 'config.yaml'} -o trainer.total_steps={result['steps'] * 2} --output-dir {run_dir}",
        "  # your own config",
        "  verl presets copy quickstart mine.yaml",
    ]
    write("\n".join(lines))


def reward_plot(run_dir: Path, *, width: int) -> str:
    """Reward by step and held-out accuracy, drawn with characters; `no plot: WHY` where that does not work out."""
    try:
        rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        rewards = _points((row["step"], row["metrics"]["reward"]) for row in rows if "metrics" in row)
        accuracies = _points((row["step"], row["eval"].get("accuracy")) for row in rows if "eval" in row)
        return _drawn(rewards, accuracies, width) if rewards else "no plot: no step has a finite reward"
    except Exception as error:  # the run is finished and saved: its closing screen may not fail it
        return f"no plot: {type(error).__name__}: {error}"


def _points(pairs: Iterable[tuple[int, float | None]]) -> list[tuple[int, float]]:
    """The pairs that can be drawn: what is not finite is left out, what is huge is drawn at the edge."""
    largest, smallest = DRAWABLE
    finite = [(step, value) for step, value in pairs if value is not None and math.isfinite(value)]
    return [
        (step, 0.0 if abs(value) < smallest else max(-largest, min(largest, float(value)))) for step, value in finite
    ]


def _drawn(rewards: list[tuple[int, float]], accuracies: list[tuple[int, float]], width: int) -> str:
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, 14)
    plotext.plot(*_columns(rewards), label="reward", marker="braille")
    if accuracies:
        plotext.scatter(*_columns(accuracies), label="held-out accuracy", marker="x")
    plotext.xlabel("step")
    return str(plotext.uncolorize(plotext.build()))


def _columns(points: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [step for step, _ in points], [value for _, value in points]


def _figure(value: float | None) -> str:
    return "-" if value is None else figure(value, ".3f")


def _load_line(model: str) -> str:
    code = (
        f"from transformers import pipeline; print(pipeline('text-generation', '{model}')('12+34=', max_new_tokens=8))"
    )
    return f'python -c "{code}"'
