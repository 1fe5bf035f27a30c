"""How long a user waits for the first training step: seconds from the launch of `verl train` to the step's line.

    python benchmarks/first_step.py --shape 0.5b --runs 3
    python benchmarks/first_step.py --device cpu --shape 4m --prompts 8 --tokens 64

Goal: on one H200, the first GRPO step (0.5b, 64 prompts x 8 responses of 256 tokens) is done within 25 s of the
launch, imports, loading, graph capture and compilation included. `--check SECONDS` exits 1 when the slowest run, the
first one included, takes longer. Model and data are local; the first run finds the file cache as it is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from _shapes import LONGEST_PROMPT, SHAPES, make_model, write_task
from _turns import LOG_TAIL, Figure, report

FIRST_STEP = "step 1/"


def config_of(arguments: argparse.Namespace, folder: Path) -> Path:
    """The run as a YAML file (JSON is YAML)."""
    questions, reward = write_task(arguments.shape, folder)
    config = {
        "model": {"path": str(make_model(arguments.shape, arguments.bench.absolute(), arguments.device))},
        "data": {
            "train_files": [str(questions)],
            "train_batch_size": arguments.prompts,
            "max_prompt_length": LONGEST_PROMPT,
            "max_response_length": arguments.tokens,
        },
        "reward": {"function": f"{reward}:compute_score"},
        "rollout": {"n": arguments.n},
        "algorithm": {"name": "grpo", "kl_coef": 0.0},
        "distributed": {"device": arguments.device},
        "trainer": {"total_steps": 1, "resume": "never"},
    }
    file = folder / "first-step.yaml"
    file.write_text(json.dumps(config))
    return file


def run(config: Path, overrides: list[str], output: Path) -> tuple[float, float, float]:
    """(seconds to the first step's line, seconds of that step, seconds of the whole command)."""
    command = [sys.executable, "-m", "verlcli", "train", str(config), "--output-dir", str(output)]
    command += [part for override in overrides for part in ("-o", override)]
    started, first, said = time.perf_counter(), None, []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if first is None and line.startswith(FIRST_STEP):
                first = time.perf_counter() - started
    if process.returncode or first is None:
        raise SystemExit(f"verl train ended with code {process.returncode}:\n{''.join(said)[-LOG_TAIL:]}")
    whole = time.perf_counter() - started
    row = json.loads((output / "metrics.jsonl").read_text().splitlines()[0])
    return first, float(row["seconds"]["step"]), whole


def main() -> int:
    """Print the figures; with `--check`, 1 for a run that took longer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--override", action="append", default=[], metavar="KEY=VALUE", help="of the config")
    parser.add_argument("--bench", type=Path, default=Path(".bench"), help="folder of models")
    parser.add_argument("--save", type=Path, help="file that the JSON lines are appended to")
    parser.add_argument("--check", type=float, metavar="SECONDS")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = config_of(arguments, folder)
        times = [run(config, arguments.override, folder / f"run-{i}") for i in range(arguments.runs)]
    launches, steps, wholes = zip(*times, strict=True)
    figures = [
        Figure("verlcli", "launch to first step, s", launches, 1),
        Figure("verlcli", "of that the first launch, s", launches[:1], 1),
        Figure("verlcli", "the step itself, s", steps, 1),
        Figure("verlcli", "whole command with checkpoint, s", wholes, 1),
    ]
    context = {key: getattr(arguments, key) for key in ("shape", "prompts", "n", "tokens")}
    report("first_step", figures, context, {"verlcli": {"device": arguments.device}}, arguments.save)
    return int(arguments.check is not None and max(launches) > arguments.check)


if __name__ == "__main__":
    sys.exit(main())
