"""What a check costs: whole commands on a 300-line config and a 300-line launch script, each further script, memory.

    python benchmarks/checking.py [--runs 11] [--scripts FOLDER] [--check]

`--scripts` names a folder of launch scripts (any depth) whose check in one process is timed script by script.
`--check` exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from verlcli.config import load_config

VERL = str(Path(sys.executable).with_name("verl"))
LINES, SECONDS, MILLISECONDS, MIB = 300, 0.35, 15.0, 60.0
KEYS = [
    "algorithm.adv_estimator=grpo",
    "data.train_batch_size=1024",
    "data.max_prompt_length=1024",
    "actor_rollout_ref.model.path=$MODEL_PATH",
    "actor_rollout_ref.actor.use_dynamic_bsz=True",
    "actor_rollout_ref.rollout.name=vllm",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.rollout.tensor_model_parallel_size=$TP",
    "trainer.n_gpus_per_node=8",
]


def long_config() -> str:
    """A config with every key, commented up to 300 lines."""
    text = load_config(["7b-single-node"], env={}).to_yaml().splitlines()
    comments = [f"# about this run, line {number}" for number in range(LINES - len(text))]
    return "\n".join([*comments, *text]) + "\n"


def long_script() -> str:
    """A launch behind 280 lines of variables and comments, some of which it uses."""
    head = ["#!/bin/bash", "set -euo pipefail", "MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-7B-Instruct}", "TP=2"]
    filler = LINES - len(head) - len(KEYS) - 2
    head += [f"OPTION_{number}=${{OPTION_{number}:-{number}}}" for number in range(filler)]
    return "\n".join(
        [*head, "ARGS=(", *(f"    {key}" for key in KEYS), ")", 'python3 -m verl.trainer.main_ppo "${ARGS[@]}"']
    )


def whole_command(file: Path, runs: int) -> tuple[float, float]:
    """Median wall seconds of `verl validate FILE`, and peak memory of its process in MiB."""
    times, peak = [], 0.0
    for _ in range(runs):
        start = time.perf_counter()
        child = subprocess.Popen([VERL, "validate", str(file)], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        times.append(time.perf_counter() - start)
        peak = max(peak, usage.ru_maxrss / 1024)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):
            raise SystemExit(f"verl validate {file} ended with {child.returncode}")
    return statistics.median(times), peak


def each_script(folder: Path, runs: int) -> list[float]:
    """CPU milliseconds of each script's check after the first in a process, the median of `runs` processes."""
    passes = [json.loads(subprocess.check_output([sys.executable, __file__, "--pass", folder])) for _ in range(runs)]
    return sorted(statistics.median(times) for times in zip(*passes, strict=True))


def one_pass(folder: Path) -> list[float]:
    """Each script once, as one call of `verl validate` checks them; the first warms up."""
    from verlcli.config.check_file import check_file

    first, *files = sorted(folder.rglob("*.sh"))
    check_file(str(first))
    gc.set_threshold(50_000)  # as `verl validate` does
    times = []
    for file in files:
        start = time.process_time()
        check_file(str(file))
        times.append((time.process_time() - start) * 1000)
    return times


def main() -> int:
    """Print a line a figure; the exit code is 1 with --check and a missed goal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--scripts", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pass", type=Path, dest="folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.folder is not None:
        print(json.dumps(one_pass(arguments.folder)))
        return 0
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("config.yaml", long_config()), ("run.sh", long_script())):
            file = Path(folder) / name
            file.write_text(text, encoding="utf-8")
            seconds, peak = whole_command(file, arguments.runs)
            missed |= seconds > SECONDS or peak > MIB
            print(
                f"{name:<12} {text.count(chr(10))} lines: {seconds:.3f} s (goal {SECONDS}), "
                f"{peak:.0f} MiB (goal {MIB:.0f})"
            )
    if arguments.scripts:
        times = each_script(arguments.scripts, arguments.runs)
        median, most, tail = statistics.median(times), times[int(len(times) * 0.9)], times[int(len(times) * 0.99)]
        missed |= median > MILLISECONDS
        within = sum(value <= MILLISECONDS for value in times)
        print(
            f"{len(times)} further scripts: median {median:.1f} ms, 90 % within {most:.1f}, 99 % within {tail:.1f}; "
            f"{within} within {MILLISECONDS:.0f} ms"
        )
    return int(arguments.check and missed)


if __name__ == "__main__":
    sys.exit(main())
