"""The end of a run on the terminal: figures, a plot of the reward, where things are, what to do next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verlcli.cli.console import stdout, write


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
    """Reward by step and held-out accuracy, drawn with characters."""
    import plotext

    rows = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "metrics" in row]
    evals = [row for row in rows if "eval" in row]
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(width, 14)
    plotext.plot(
        [row["step"] for row in steps], [row["metrics"]["reward"] for row in steps], label="reward", marker="braille"
    )
    if evals:
        plotext.scatter(
            [r["step"] for r in evals], [r["eval"]["accuracy"] for r in evals], label="held-out accuracy", marker="x"
        )
    plotext.xlabel("step")
    return str(plotext.uncolorize(plotext.build()))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _load_line(model: str) -> str:
    code = (
        f"from transformers import pipeline; print(pipeline('text-generation', '{model}')('12+34=', max_new_tokens=8))"
    )
    return f'python -c "{code}"'
