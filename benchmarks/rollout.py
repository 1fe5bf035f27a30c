"""Generation alone: tokens/s of our engines beside transformers' `generate` and vLLM, and the share of the roofline.

    python benchmarks/rollout.py --shape 0.5b --engine graph generate vllm
    python benchmarks/rollout.py --shape 7b --batch 256 --engine graph vllm --apart
    python benchmarks/rollout.py --device cpu --shape 4m --batch 64 --prompt 32 --gen 64 --engine graph generate

Goal: on one H200, `graph` (batch 512, prompt 64, 256 new tokens, 0.5b) generates faster than vLLM. `--check RATIO`
exits 1 when the slowest ratio of ours to a peer is below RATIO. On a CPU, where equal lengths leave little but the same
matrix products, `graph` is to be no slower than `generate`.

`graph`, `hf` and `vllm-local` are ours (`rollout.name`), made by the trainer as for training, with the plan's dtype;
`generate` and `vllm` are the peers with bfloat16 ones (fp32 on a CPU). All draw from the whole distribution, all but
`generate` with log-probabilities; the same random prompts, `--n` responses each, EOS never. They take turns, in
processes of their own.

On a GPU, what a decode step must read is all its weights once and the keys and values of all sequences:

    roofline tokens/s = batch * gen / seconds,  seconds = gen * (W + batch * (prompt + gen / 2) * K) / B

with W bytes of weights and K bytes of cache a token (2 bytes a number), and B the bandwidth of a device copy measured
at the start. Prefill, activations and logits are left out; prompts shared by n > 1 responses are counted n times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from _peers import PEERS, answer_turns
from _shapes import SHAPES, cached_per_token, make_model, weights_read
from _turns import Channel, Figure, Job, Outcome, report, take_turns

OURS = {"graph": "graph", "hf": "hf", "vllm-local": "vllm"}  # name here: rollout.name
ROLLOUT_PEERS = tuple(name for name in PEERS if name != "trl")
BYTES = 2  # of a bfloat16
COPIED = 2**31  # bytes
COPY = """
import torch
source = torch.empty({size}, dtype=torch.uint8, device="cuda").random_()
target = torch.empty_like(source)
for turn in range(23):
    if turn == 3:
        start, end = torch.cuda.Event(True), torch.cuda.Event(True)
        start.record()
    target.copy_(source)
end.record()
torch.cuda.synchronize()
print(20 * 2 * {size} / (start.elapsed_time(end) / 1e3))
"""


def copy_bandwidth() -> float:
    """Bytes/s, read and written, of a device copy; in a process of its own, which leaves no memory taken."""
    command = [sys.executable, "-c", COPY.format(size=COPIED)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def roofline(arguments: argparse.Namespace, bandwidth: float) -> float:
    """Tokens/s that reading weights and cache allows; see the top of this file."""
    shape = SHAPES[arguments.shape]
    cached = arguments.batch * (arguments.prompt + arguments.gen / 2) * cached_per_token(shape)
    step_bytes = BYTES * (weights_read(shape) + cached)
    return float(arguments.batch * bandwidth / step_bytes)


def serve_ours(settings: Mapping[str, Any]) -> None:
    """Our engine, a worker of `_turns.py`: a turn is one rollout of the batch."""
    channel = Channel()
    import torch

    from verlcli import PPOTrainer
    from verlcli.engine.memory import peak_memory_gib
    from verlcli.engine.rollout import Sampling

    if settings["threads"]:
        torch.set_num_threads(settings["threads"])
    config = {
        "model": {"path": settings["model"]},
        "data": {
            "source": "arithmetic",
            "max_prompt_length": settings["prompt"],
            "max_response_length": settings["gen"],
            "train_batch_size": settings["batch"] // settings["n"],
        },
        "rollout": {"name": settings["engine"], "n": settings["n"], "max_num_seqs": settings["batch"]},
        "algorithm": {"name": "reinforce_plus_plus", "kl_coef": 0.0},  # takes any n, and needs no critic
        "distributed": {"device": settings["device"]},
    }
    trainer = PPOTrainer(config, overrides=settings["overrides"])
    engine: Any = trainer.roles.rollout
    if settings["engine"] != engine.name:
        sys.exit(f"rollout.name: {settings['engine']} fell back to {engine.name}")
    sampling = Sampling(max_tokens=settings["gen"], min_tokens=settings["gen"])

    def generate(prompts: list[list[int]]) -> int:
        drawn: int = engine.generate(prompts, settings["n"], sampling).num_tokens
        return drawn

    channel.ready(settings["device"], details=f"{engine.name} rollout with log-probs")
    answer_turns(channel, settings, generate, peak_memory_gib)
    trainer.close()


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """One worker an engine, all with the same task."""
    keys = ("device", "shape", "batch", "n", "prompt", "gen", "threads", "vllm_memory")
    common = {key: getattr(arguments, key) for key in keys}
    common["vocabulary"] = SHAPES[arguments.shape]["vocab_size"]
    bench, jobs = arguments.bench.absolute(), []
    for name in dict.fromkeys(arguments.engine):
        if name in OURS:
            model = str(make_model(arguments.shape, bench, arguments.device))
            ours = {"engine": OURS[name], "model": model, "overrides": arguments.override}
            jobs.append(Job(name, (sys.executable, __file__, "--serve"), common | ours))
        else:
            peers = str(Path(__file__).parent / "_peers.py")
            folder = str(bench / f"{arguments.shape}-config")
            jobs.append(Job(name, (sys.executable, peers, name), common | {"folder": folder}))
    return jobs


def figures_of(outcomes: Mapping[str, Outcome], arguments: argparse.Namespace) -> list[Figure]:
    """Figures of each engine, then our ratios to each peer; refuses engines that drew another number of tokens."""
    expected, figures = arguments.batch * arguments.gen, []
    ceiling = roofline(arguments, copy_bandwidth()) if arguments.device == "cuda" else None
    for name, outcome in outcomes.items():
        if set(outcome.values("tokens")) != {float(expected)}:
            sys.exit(f"{name} generated {outcome.values('tokens')} tokens, not {expected}: nothing can be compared")
        rates = [expected / seconds for seconds in outcome.values("seconds")]
        figures += [
            Figure(name, "tokens/s", rates, 0),
            Figure(name, "load seconds", [float(outcome.facts["load_seconds"])], 1),
        ]
        if ceiling is not None:
            figures.append(Figure(name, "of the roofline, %", [100 * rate / ceiling for rate in rates], 1))
        if name != "vllm":  # which allocates in a process of its own
            figures.append(Figure(name, "peak GiB", [max(outcome.values("peak_gib"))], 2))
    for ours in (name for name in outcomes if name in OURS):
        for peer in (name for name in outcomes if name not in OURS):
            pairs = zip(outcomes[peer].values("seconds"), outcomes[ours].values("seconds"), strict=True)
            figures.append(Figure(ours, f"times {peer}", [their / our for their, our in pairs], 2))
    return figures


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--engine", nargs="+", choices=(*OURS, *ROLLOUT_PEERS), default=["graph", "generate"])
    parser.add_argument("--batch", type=int, default=512, help="sequences, n of them to a prompt")
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=64, help="tokens")
    parser.add_argument("--gen", type=int, default=256, help="new tokens of every sequence")
    parser.add_argument("--turns", type=int, default=3, help="measured turns")
    parser.add_argument("--warm", type=int, default=1, help="turns before that are not measured")
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: its own choice")
    parser.add_argument("-o", "--override", action="append", default=[], metavar="KEY=VALUE", help="of our config")
    parser.add_argument("--vllm-memory", type=float, default=0.35, help="vLLM's share of the GPU's memory")
    parser.add_argument("--apart", action="store_true", help="one engine after the other, where all do not fit")
    parser.add_argument("--bench", type=Path, default=Path(".bench"), help="folder of models and logs")
    parser.add_argument("--save", type=Path, help="file that the JSON lines are appended to")
    parser.add_argument("--check", type=float, metavar="RATIO")
    arguments = parser.parse_args()
    if arguments.batch % arguments.n:
        parser.error(f"--batch {arguments.batch} is not a multiple of --n {arguments.n}")
    return arguments


def main() -> int:
    """Print the figures; with `--check`, 1 for a ratio that was missed."""
    arguments = parse()
    outcomes = take_turns(
        jobs_of(arguments), turns=arguments.turns, warm=arguments.warm, folder=arguments.bench, apart=arguments.apart
    )
    figures = figures_of(outcomes, arguments)
    context = {key: getattr(arguments, key) for key in ("shape", "batch", "n", "prompt", "gen")}
    report("rollout", figures, context, {name: each.facts for name, each in outcomes.items()}, arguments.save)
    ratios = [each.median for each in figures if each.figure.startswith("times ")]
    return int(arguments.check is not None and (not ratios or min(ratios) < arguments.check))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_ours(json.loads(sys.argv[2]))
        sys.exit()
    sys.exit(main())
