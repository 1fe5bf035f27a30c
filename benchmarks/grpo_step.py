r"""A whole GRPO step, ours beside TRL's: generation, reward, advantages, backward passes and optimizer.

    python benchmarks/grpo_step.py --shape 0.5b --prompts 64 --n 8 --tokens 256 --steps 4
    python benchmarks/grpo_step.py --shape 0.5b --lengths lognormal --tokens 1024
    python benchmarks/grpo_step.py --device cpu --shape 4m --prompts 8 --n 8 --tokens 128 --lengths lognormal \
        --threads 1 --trl-python VENV/bin/python

Goals: on one H200 our step (0.5b, 64 prompts x 8 responses of 256 tokens, full fine-tuning) takes a third of TRL's or
less; on a CPU (4m, the third line) half of TRL's or less. `--check RATIO` exits 1 when TRL's seconds over ours, the
median of the turns, is below RATIO.

Both get the same model folder, questions, reward, response lengths, learning rate and loss (GRPO without KL,
token mean), one update a step. EOS is never drawn; `--lengths lognormal` ends each response at a length of its own,
the same for both. They step in turn, in processes of their own. Differences that stay: TRL trains bfloat16 weights on a
GPU (`--trl-dtype float32` changes that) while ours keeps fp32 ones; a micro batch is TRL's `--trl-micro` sequences,
ours is planned. TRL generates through transformers.

    generated tokens/s = response tokens / seconds of the generation alone
    tokens/s           = response tokens / seconds of the step
    processor seconds  = CPU time of the process's threads in a step: with `--threads 1` what wall time a CPU free of
                         neighbours would show, so on a shared CPU its ratio is the one to trust
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from _shapes import LONGEST_PROMPT, SHAPES, dtype_of, make_model, response_lengths, write_task
from _turns import Channel, Figure, Job, Outcome, report, take_turns

OURS, TRL = "verlcli", "trl"
RATIOS = {
    "step_seconds": "TRL's step / ours",
    "rollout_seconds": "TRL's rollout / ours",
    "processor_seconds": "TRL's processor / ours",
}
LOGITS_TOKENS = 16384  # of TRL's micro batch unless it is given: 64 responses of 256 tokens


def serve_ours(settings: Mapping[str, Any]) -> None:
    """Our half, a worker of `_turns.py`: a turn is one `PPOTrainer.train_step()`."""
    channel = Channel()
    import torch

    from verlcli import PPOTrainer
    from verlcli.engine.memory import peak_memory_gib

    device, tokens = settings["device"], settings["tokens"]
    if settings["threads"]:
        torch.set_num_threads(settings["threads"])
    config = {
        "model": {"path": settings["model"]},
        "data": {
            "train_files": [settings["questions"]],
            "train_batch_size": settings["prompts"],
            "max_prompt_length": LONGEST_PROMPT,
            "max_response_length": tokens,
        },
        "reward": {"function": f"{settings['reward']}:compute_score"},
        "rollout": {"name": settings["engine"], "n": settings["n"], "min_tokens": tokens},
        "algorithm": {"name": "grpo", "kl_coef": 0.0},
        "actor": {"optim": {"lr": 1e-6, "weight_decay": 0.0}},
        "distributed": {"device": device},
        "trainer": {"total_steps": 10**6, "output_dir": settings["output"]},
    }
    trainer = PPOTrainer(config, overrides=settings["overrides"])
    engine: Any = trainer.roles.rollout
    if settings["engine"] not in (None, engine.name):
        sys.exit(f"rollout.name: {settings['engine']} fell back to {engine.name}")
    if settings["lengths"] != "fixed":
        if "lengths" not in inspect.signature(engine.generate).parameters:
            sys.exit(f"the {engine.name} rollout cannot end each response at a length of its own; --engine graph can")
        lengths = torch.tensor(response_lengths(settings["lengths"], settings["prompts"] * settings["n"], tokens))
        generate = engine.generate
        engine.generate = lambda prompts, n, sampling: generate(prompts, n, sampling, lengths=lengths)
    micro = trainer.plan.batch.micro_batch_sequences
    dtype = trainer.plan.role("actor").dtype
    channel.ready(device, details=f"{engine.name} rollout, {dtype} weights and fp32 masters, micro batches of {micro}")
    while channel.turn():
        started, worked = time.perf_counter(), time.process_time()
        row = trainer.train_step()
        channel.answer(
            step_seconds=time.perf_counter() - started,
            processor_seconds=time.process_time() - worked,
            rollout_seconds=row["seconds"]["rollout"],
            tokens=row["tokens"]["generated"],
            peak_gib=peak_memory_gib(device),
            seconds=row["seconds"],
        )
    trainer.close()


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """The halves that were asked for, with the same task."""
    bench = arguments.bench.absolute()
    questions, reward = write_task(arguments.shape, bench)
    device = arguments.device
    common = {
        "model": str(make_model(arguments.shape, bench, device)),
        "questions": str(questions),
        "reward": str(reward),
        **{key: getattr(arguments, key) for key in ("device", "prompts", "n", "tokens", "lengths", "threads")},
    }
    ours = {"engine": arguments.engine, "overrides": arguments.override, "output": str(bench / "grpo-ours")}
    micro = arguments.trl_micro or max(1, LOGITS_TOKENS // arguments.tokens)
    theirs = {"micro": micro, "dtype": arguments.trl_dtype or dtype_of(device), "liger": arguments.trl_liger}
    peers = str(Path(__file__).parent / "_peers.py")
    jobs = [
        Job(OURS, (sys.executable, __file__, "--serve"), common | ours),
        Job(TRL, (arguments.trl_python, peers, TRL), common | theirs | {"output": str(bench / "grpo-trl")}),
    ]
    return [job for job in jobs if arguments.only in (None, job.name)]


def figures_of(outcomes: Mapping[str, Outcome], expected: int) -> list[Figure]:
    """Figures of each engine, then the ratios; refuses engines that generated another number of tokens."""
    figures = []
    for name, outcome in outcomes.items():
        tokens, steps = outcome.values("tokens"), outcome.values("step_seconds")
        if set(tokens) != {float(expected)}:
            sys.exit(f"{name} generated {tokens} tokens a step, not {expected}: nothing can be compared")
        rollouts = outcome.values("rollout_seconds")
        figures += [
            Figure(name, "step seconds", steps),
            Figure(name, "rollout seconds", rollouts),
            Figure(name, "generated tokens/s", [expected / each for each in rollouts], 0),
            Figure(name, "tokens/s", [expected / each for each in steps], 0),
            Figure(name, "peak GiB", [max(outcome.values("peak_gib"))], 2),
            Figure(name, "processor seconds", outcome.values("processor_seconds")),
        ]
    if len(outcomes) == 2:
        ours, theirs = outcomes[OURS], outcomes[TRL]
        for key, name in RATIOS.items():
            pairs = zip(theirs.values(key), ours.values(key), strict=True)
            figures.append(Figure(OURS, name, [their / our for their, our in pairs], 2))
    return figures


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--n", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=256, help="of a response, at most")
    parser.add_argument("--lengths", choices=("fixed", "lognormal"), default="fixed")
    parser.add_argument("--steps", type=int, default=4, help="measured turns")
    parser.add_argument("--warm", type=int, default=3, help="turns that are not measured: the third compiles")
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: its own choice")
    parser.add_argument("--engine", help="rollout.name of ours (default: the planner's)")
    parser.add_argument("-o", "--override", action="append", default=[], metavar="KEY=VALUE", help="of our config")
    parser.add_argument("--trl-python", default=sys.executable, help="interpreter of an environment with TRL")
    parser.add_argument("--trl-dtype", choices=("bfloat16", "float32"))
    parser.add_argument("--trl-micro", type=int)
    parser.add_argument("--trl-liger", action="store_true", help="TRL's loss through liger-kernel")
    parser.add_argument("--only", choices=(OURS, TRL))
    parser.add_argument("--apart", action="store_true", help="one engine after the other, where both do not fit")
    parser.add_argument("--bench", type=Path, default=Path(".bench"), help="folder of models and logs")
    parser.add_argument("--save", type=Path, help="file that the JSON lines are appended to")
    parser.add_argument("--check", type=float, metavar="RATIO")
    return parser.parse_args()


def main() -> int:
    """Print the figures; with `--check`, 1 for a ratio that was missed."""
    arguments = parse()
    expected = sum(response_lengths(arguments.lengths, arguments.prompts * arguments.n, arguments.tokens))
    outcomes = take_turns(
        jobs_of(arguments), turns=arguments.steps, warm=arguments.warm, folder=arguments.bench, apart=arguments.apart
    )
    figures = figures_of(outcomes, expected)
    keys = ("shape", "prompts", "n", "tokens", "lengths")
    context = {key: getattr(arguments, key) for key in keys}
    report("grpo_step", figures, context, {name: each.facts for name, each in outcomes.items()}, arguments.save)
    ratio = next((each.median for each in figures if each.figure == RATIOS["step_seconds"]), None)
    return int(arguments.check is not None and (ratio is None or ratio < arguments.check))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_ours(json.loads(sys.argv[2]))
        sys.exit()
    sys.exit(main())
