"""How long `verl` takes to start, next to importing what it is made of: interleaved runs, medians, ratios.

    python benchmarks/startup.py [--runs 15] [--check]

`--check` exits 1 when a ratio is above its target.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

VERL = str(Path(sys.executable).with_name("verl"))
BASELINE = "import typer, rich, yaml"
COMMANDS = {
    BASELINE: [sys.executable, "-c", BASELINE],
    "verl --help": [VERL, "--help"],
    "verl validate 7b-single-node": [VERL, "validate", "7b-single-node"],
}
TARGETS = {"verl --help": 1.5, "verl validate 7b-single-node": 3.0}


def seconds(command: list[str]) -> float:
    """Wall time of one process; it must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def measure(runs: int) -> dict[str, float]:
    """Median seconds of each command; the commands take turns, so that drift of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(runs + 1):
        for name, command in COMMANDS.items():
            taken = seconds(command)
            if turn:  # the first turn fills the caches
                times[name].append(taken)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> int:
    """Print one line a command; the exit code is 1 with --check and a missed target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    medians = measure(arguments.runs)
    missed = False
    for name, median in medians.items():
        ratio, target = median / medians[BASELINE], TARGETS.get(name)
        missed |= target is not None and ratio > target
        wanted = f"  target <= {target}" if target else ""
        print(f"{median * 1000:7.0f} ms  {ratio:5.2f}x  {name}{wanted}")
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
