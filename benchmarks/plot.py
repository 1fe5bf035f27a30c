"""Draw `docs/images/speed.svg`, the README's picture, from the stored figures of one H200.

    python benchmarks/plot.py [--results FOLDER] [--out FILE]

Read are the lines that `_turns.report` wrote to `DATE-NAME-h200.jsonl`: whole GRPO steps beside TRL's, and generation
beside vLLM's where it was measured. A workload is drawn from the newest file that holds both engines, and of several
runs in that file from the last. Needs matplotlib, which is among the packages of `.[dev]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
GRPO = ("shape", "prompts", "n", "tokens", "lengths")  # what makes two lines the same workload
ROLLOUT = ("shape", "batch", "n", "prompt", "gen")
ROLLOUT_COLOR, REST_COLOR, TEXT_COLOR, QUIET_COLOR = "#1f6feb", "#9ec5f7", "#1f2328", "#59636e"
WIDTH, PANEL_HEIGHT, HEAD, FOOT = 8.4, 0.95, 0.32, 0.5  # inches
LABEL_SPACE = 0.7  # what the values need right of the longest bar, as a share of that bar
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # texts stay texts: small, sharp, and readable for a test and a screen reader
    "svg.hashsalt": "verlcli",  # else the ids in the file are new every time
    "font.size": 9,
    "text.color": TEXT_COLOR,
}

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bar:
    """One engine: its parts (rollout first), and what is written behind them."""

    engine: str
    parts: tuple[float, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One workload: our bar above the peer's, and the lines they were made from."""

    title: str
    workload: str
    bars: tuple[Bar, Bar]
    lines: tuple[Line, Line]


def measured(
    results: Path, benchmark: str, keys: tuple[str, ...], engines: tuple[str, str]
) -> list[list[dict[str, Line]]]:
    """A list a workload: of both engines, their lines by figure."""
    found: dict[tuple[Any, ...], list[dict[str, Line]]] = {}
    for file in sorted(results.glob("????-??-??-*-h200.jsonl")):
        own: dict[tuple[Any, ...], dict[str, dict[str, Line]]] = {}
        for line in _lines(file):
            if line.get("benchmark") == benchmark and line["engine"] in engines:
                workload = tuple(line[key] for key in keys)
                own.setdefault(workload, {}).setdefault(line["engine"], {})[line["figure"]] = line
        found |= {workload: [both[name] for name in engines] for workload, both in own.items() if len(both) == 2}
    return list(found.values())


def _lines(file: Path) -> Iterator[Line]:
    """The file's lines, each with the date in its name."""
    for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
        try:
            yield json.loads(text) | {"date": file.name[: len("2026-12-31")]}
        except json.JSONDecodeError as error:
            sys.exit(f"{file}:{number}: not JSON ({error}); write one object a line, as `--save FILE` does")


def step_panel(ours: Mapping[str, Line], trl: Mapping[str, Line]) -> Panel:
    """Seconds of a GRPO step, split into rollout and the rest."""
    steps, bars = (ours["step seconds"], trl["step seconds"]), []
    name = _release(steps[1])
    for engine, figures in (("verlcli", ours), (name, trl)):
        step, rollout = figures["step seconds"]["median"], figures["rollout seconds"]["median"]
        bars.append(Bar(engine, (rollout, step - rollout), f"{step:#.3g} s ({rollout:#.3g} rollout)"))
    given = steps[0]
    lengths = f"of {given['tokens']:,} tokens"
    if given["lengths"] != "fixed":
        lengths = f"of up to {given['tokens']:,} tokens ({given['lengths']})"
    return Panel(
        f"GRPO step: {steps[1]['median'] / steps[0]['median']:.2g} times as fast as TRL",
        f"{given['shape'].upper()}, {given['prompts']} × {given['n']} responses {lengths}",
        (bars[0], bars[1]),
        steps,
    )


def generation_panel(ours: Mapping[str, Line], vllm: Mapping[str, Line]) -> Panel:
    """Generated tokens/s."""
    rates = (ours["tokens/s"], vllm["tokens/s"])
    mine, theirs = (rate["median"] for rate in rates)
    given = rates[0]
    return Panel(
        f"Generation: {mine / theirs:.2g} times as fast as vLLM",
        f"{given['shape'].upper()}, {given['batch']} sequences of {given['prompt']} + {given['gen']} tokens",
        (
            Bar("verlcli", (mine,), f"{mine:,.0f} tokens/s"),
            Bar(_release(rates[1]), (theirs,), f"{theirs:,.0f} tokens/s"),
        ),
        rates,
    )


def panels(results: Path) -> list[Panel]:
    """All that can be drawn from the files under `results`; ends the program where that is nothing."""
    steps = measured(results, "grpo_step", GRPO, ("verlcli", "trl"))
    rollouts = measured(results, "rollout", ROLLOUT, ("graph", "vllm"))
    found = [*(step_panel(*both) for both in steps), *(generation_panel(*both) for both in rollouts)]
    if not found:
        sys.exit(
            f"{results}: no DATE-NAME-h200.jsonl with both engines; measure with benchmarks/grpo_step.py --save FILE"
        )
    return found


def caption(lines: Iterable[Line]) -> str:
    """The machine, versions and dates behind the picture."""
    lines = list(lines)

    def all_of(key: str) -> str:
        return ", ".join(sorted({str(line[key]) for line in lines}))

    return (
        f"One {all_of('machine')}, {all_of('date')}; torch {all_of('torch')}, transformers {all_of('transformers')}, "
        f"through which TRL generates.\nMedians of {all_of('turns').replace(', ', ' or ')} turns; random weights. "
        "Each chart has its own scale."
    )


def draw(shown: list[Panel], out: Path) -> None:
    """Write the SVG: two panels a row, legend above, caption below."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        sys.exit("matplotlib is not installed; pip install -c constraints.txt -e '.[dev]'")
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    matplotlib.rcdefaults()  # a matplotlibrc of the user would change the file
    rows = -(-len(shown) // 2)
    height = HEAD + rows * PANEL_HEIGHT + FOOT
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), facecolor="white")
        for index, panel in enumerate(shown):
            row, column = divmod(index, 2)
            bottom = height - HEAD - (row + 1) * PANEL_HEIGHT + 0.08
            axes = figure.add_axes((0.105 + 0.49 * column, bottom / height, 0.395, 0.45 / height))
            _draw_bars(axes, panel)
        names = {"rollout (generation)": ROLLOUT_COLOR, "the rest: reward, advantages, update": REST_COLOR}
        figure.legend(
            handles=[Patch(color=color, label=name) for name, color in names.items()],
            loc="upper left", bbox_to_anchor=(0.005, 1), ncols=2, frameon=False, fontsize=8, handlelength=1,
        )  # fmt: skip
        text = caption(line for panel in shown for line in panel.lines)
        figure.text(0.015, 0.09 / height, text, fontsize=7.5, color=QUIET_COLOR, linespacing=1.4)
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})


def _draw_bars(axes: Any, panel: Panel) -> None:
    longest = max(sum(bar.parts) for bar in panel.bars)
    axes.set(xlim=(0, longest * (1 + LABEL_SPACE)), ylim=(1.5, -0.5))
    axes.axis("off")
    axes.annotate(panel.title, (0, 1), (0, 16), xycoords="axes fraction", textcoords="offset points", weight="bold")
    axes.annotate(
        panel.workload, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", fontsize=8,
        color=QUIET_COLOR,
    )  # fmt: skip
    for place, bar in enumerate(panel.bars):
        weight = "bold" if place == 0 else "normal"
        left = 0.0
        for part, color in zip(bar.parts, (ROLLOUT_COLOR, REST_COLOR), strict=False):
            axes.barh(place, part, left=left, height=0.72, color=color)
            left += part
        for x, text, side, shift in ((0, bar.engine, "right", -4), (left, bar.text, "left", 4)):
            axes.annotate(
                text, (x, place), (shift, 0), textcoords="offset points", ha=side, va="center", fontsize=8.5,
                weight=weight,
            )  # fmt: skip


def _release(line: Line) -> str:
    """`TRL 1.16.0` of a peer's details."""
    return str(line["details"]).split(",")[0]


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "speed.svg")
    arguments = parser.parse_args()
    draw(panels(arguments.results), arguments.out)


if __name__ == "__main__":
    main()
