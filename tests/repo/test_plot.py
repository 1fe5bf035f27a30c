"""The README's picture shows the stored figures, and only figures that belong together."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "images" / "speed.svg"
RESULTS = ROOT / "benchmarks" / "results"
STEPS = RESULTS / "2026-12-01-grpo-step-h200.jsonl"
SVG = "{http://www.w3.org/2000/svg}"
MADE = {"turns": 3, "machine": "NVIDIA H200", "torch": "2.11.0", "transformers": "5.17.0"}
ROLLOUT = {"benchmark": "rollout", "shape": "0.5b", "batch": 512, "n": 1, "prompt": 64, "gen": 256} | MADE


def run(results: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/plot.py", "--results", str(results), "--out", str(out)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def draw(results: Path, out: Path) -> Path:
    done = run(results, out)
    assert done.returncode == 0, done.stderr
    return out


def texts(svg: Path) -> list[str]:
    return [
        text for element in ElementTree.parse(svg).iter(f"{SVG}text") for text in element.itertext() if text.strip()
    ]


def bars(svg: Path) -> list[float]:
    """Widths of the bars, in the order drawn: what the axes clip."""
    corners = [
        [float(x) for x in re.findall(r"[ML] (\S+)", path.attrib["d"])]
        for path in ElementTree.parse(svg).iter(f"{SVG}path")
        if "clip-path" in path.attrib
    ]
    return [round(max(xs) - min(xs), 1) for xs in corners]


def medians(engine: str, figure: str) -> list[float]:
    lines = [json.loads(line) for line in STEPS.read_text("utf-8").splitlines()]
    return [line["median"] for line in lines if (line["engine"], line["figure"]) == (engine, figure)]


def add(file: Path, **line: Any) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with the stored figures of GRPO steps alone."""
    folder = tmp_path / "results"
    folder.mkdir()
    shutil.copy(STEPS, folder)
    return folder


def test_stored_picture_is_drawn_from_the_stored_figures(tmp_path: Path) -> None:
    fresh = draw(RESULTS, tmp_path / "fresh.svg")
    assert (texts(fresh), bars(fresh)) == (texts(STORED), bars(STORED)), "run `python benchmarks/plot.py`"


def test_drawing_again_gives_the_same_bytes_without_a_date(results: Path, tmp_path: Path) -> None:
    first, second = (draw(results, tmp_path / f"{name}.svg").read_bytes() for name in ("first", "second"))
    assert first == second
    assert b"dc:date" not in first


def test_bars_and_texts_are_the_medians(results: Path, tmp_path: Path) -> None:
    svg = draw(results, tmp_path / "plot.svg")
    both = [(medians(name, "step seconds"), medians(name, "rollout seconds")) for name in ("verlcli", "trl")]
    widths = iter(bars(svg))
    for workload in range(2):
        parts = [
            part for steps, rollouts in both for part in (rollouts[workload], steps[workload] - rollouts[workload])
        ]
        drawn = [next(widths) for _ in parts]
        longest = max(sum(parts[:2]), sum(parts[2:]))
        scale = sum(drawn[2:]) / longest
        assert drawn == pytest.approx([scale * part for part in parts], abs=0.2)
        for steps, rollouts in both:
            assert f"{steps[workload]:#.3g} s ({rollouts[workload]:#.3g} rollout)" in texts(svg)
    assert next(widths, None) is None


def test_generation_beside_vllm_is_drawn_once_it_is_measured(results: Path, tmp_path: Path) -> None:
    file = results / "2026-12-05-rollout-h200.jsonl"
    add(file, engine="graph", figure="tokens/s", median=150_000.0, details="graph rollout with log-probs", **ROLLOUT)
    assert len(bars(draw(results, tmp_path / "ours.svg"))) == 8, "an engine alone is not compared"
    add(file, engine="vllm", figure="tokens/s", median=50_000.0, details="vLLM 0.24.0", **ROLLOUT)
    svg = draw(results, tmp_path / "both.svg")
    assert {"Generation: 3 times as fast as vLLM", "vLLM 0.24.0", "150,000 tokens/s", "50,000 tokens/s"} <= {
        *texts(svg)
    }
    ours, vllm = bars(svg)[8:]
    assert ours == pytest.approx(3 * vllm, abs=0.3)


def test_engines_of_different_files_are_not_compared(results: Path, tmp_path: Path) -> None:
    first = json.loads(STEPS.read_text("utf-8").splitlines()[0])
    before = draw(results, tmp_path / "before.svg").read_bytes()
    add(results / "2026-12-31-grpo-step-h200.jsonl", **first | {"median": 0.1})
    assert draw(results, tmp_path / "after.svg").read_bytes() == before


def test_folder_without_figures_is_refused_in_one_line(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "plot.svg")
    assert done.returncode == 1
    assert "benchmarks/grpo_step.py --save" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "plot.svg").exists()


def test_line_that_is_not_json_is_named(results: Path, tmp_path: Path) -> None:
    (results / "2026-12-31-grpo-step-h200.jsonl").write_text("{}\n{oops\n")
    done = run(results, tmp_path / "plot.svg")
    assert done.returncode == 1
    assert "2026-12-31-grpo-step-h200.jsonl:2: not JSON" in done.stderr
