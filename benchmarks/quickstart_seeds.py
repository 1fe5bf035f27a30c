"""What the quickstart learns, seed by seed: held-out greedy accuracy before and after, and wall time with start-up.

    python benchmarks/quickstart_seeds.py [--seeds 5] [--check]

`--check` exits 1 when a seed gains less than 30 points or takes 180 s or more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEAST_GAIN, MOST_SECONDS = 0.30, 180.0


def run(seed: int, folder: Path) -> tuple[dict[str, dict[str, float]], float]:
    """Train the quickstart with `seed` in a process of its own; its JSON and wall seconds."""
    command = [sys.executable, "-m", "verlcli", "train", "quickstart", "-o", f"trainer.seed={seed}"]
    started = time.perf_counter()
    done = subprocess.run(
        [*command, "--output-dir", str(folder / f"seed-{seed}"), "--json", "-q"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout), time.perf_counter() - started


def main() -> int:
    """Print one row a seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    missed = False
    print("| seed | before | after | gain | reward first | reward last | seconds |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seeds):
            result, seconds = run(seed, Path(folder))
            before, after = result["eval"]["before"], result["eval"]["after"]
            missed |= after - before < LEAST_GAIN or seconds >= MOST_SECONDS
            reward = result["reward"]
            print(
                f"| {seed} | {before:.1%} | {after:.1%} | {100 * (after - before):+.1f} points "
                f"| {reward['first']:.3f} | {reward['last']:.3f} | {seconds:.0f} |",
                flush=True,
            )
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
