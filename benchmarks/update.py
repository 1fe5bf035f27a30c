"""Speed and memory of one policy update: forward, log-probs, loss, backward, AdamW, over a mini batch in memory.

    python benchmarks/update.py --case a
    python benchmarks/update.py --case all --save benchmarks/results/update.jsonl
    python benchmarks/update.py --case cpu --device cpu

| case | model (random weights) | batch |
|---|---|---|
| a | Qwen2.5-0.5B | 512 sequences of 64 + 256 tokens, micro batches of 16,384 tokens |
| b | Qwen2.5-1.5B | 128 sequences of 128 to 1,024 tokens, micro batches of 32,768 tokens |
| c | Qwen3-0.6B | 2 sequences of 16,384 tokens, one a micro batch, full recomputation |
| cpu | Llama of 4M parameters | 64 sequences of 16 + 16 to 128 tokens |

MFU = (6 P_blocks T + 6 P_head N + 6 L n_h d sum s^2) / (seconds x 989e12): P_blocks are the weights of the blocks'
matrix products, P_head those of the output head, T all tokens, N those whose log-prob is computed, s the lengths
(causal attention; recomputation is not counted as work). `mfu_head_on_all` has T for N, as trainers report it that run
the head on prompts too. 989 TFLOP/s is the H200's dense bf16 peak. Seconds are the median of the measured steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from _shapes import SHAPES, dtype_of

PEAK_FLOPS = 989e12
QWEN3 = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
}


@dataclass(frozen=True)
class Case:
    """A model's shape and a batch."""

    shape: dict[str, Any]
    sequences: int
    prompt: int  # tokens
    shortest: int  # tokens of the response; lengths are uniform
    longest: int
    tokens: int  # of a micro batch
    recompute: str = "none"


CASES = {
    "a": Case(SHAPES["0.5b"], 512, 64, 256, 256, 16384),
    "b": Case(SHAPES["1.5b"], 128, 64, 64, 960, 32768),
    "c": Case(QWEN3, 2, 1, 16383, 16383, 16384, "full"),
    "cpu": Case(SHAPES["4m"], 64, 16, 16, 128, 4096),
}


def flops(shape: dict[str, Any], lengths: list[int], predicted: int) -> float:
    """Of forward and backward pass; see above."""
    hidden, heads = shape["hidden_size"], shape["num_attention_heads"]
    head = shape.get("head_dim") or hidden // heads
    layers = shape["num_hidden_layers"]
    weights = hidden * head * 2 * (heads + shape["num_key_value_heads"]) + 3 * hidden * shape["intermediate_size"]
    attention = layers * heads * head * sum(n * n for n in lengths)
    return 6.0 * (layers * weights * sum(lengths) + shape["vocab_size"] * hidden * predicted + attention)


def make_batch(case: Case, device: str) -> Any:
    """Random tokens, lengths and advantages."""
    import torch

    from verlcli.engine.batch import Batch

    draw = torch.Generator().manual_seed(0)
    responses = torch.randint(case.shortest, case.longest + 1, (case.sequences,), generator=draw)
    width = case.prompt + case.longest
    ids = torch.randint(3, case.shape["vocab_size"], (case.sequences, width), generator=draw)
    mask = torch.arange(case.longest)[None] < responses[:, None]
    prompts = torch.ones(case.sequences, case.prompt, dtype=torch.bool)
    return Batch(
        input_ids=ids.to(device),
        attention_mask=torch.cat([prompts, mask], 1).long().to(device),
        response_mask=mask.to(device),
        groups=torch.arange(case.sequences, device=device),
        advantages=(torch.randn(case.sequences, case.longest, generator=draw) * mask).to(device),
    )


def make_engine(case: Case, args: argparse.Namespace) -> Any:
    """The engine as a run would build it, with random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from verlcli.config.types import OptimConfig
    from verlcli.engine.training import TorchEngine, policy_forward
    from verlcli.engine.training.linear_logprob import head_memory

    torch.manual_seed(0)
    shape = {k: v for k, v in case.shape.items() if k != "architectures"}
    with torch.device(args.device):
        config = AutoConfig.for_model(**shape)
        module = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype_of(args.device)))
    recompute = args.recompute or case.recompute
    memory = head_memory(torch.device(args.device), saving=recompute != "none")
    asked = {"chunk_bytes": args.chunk_mib, "kept_bytes": args.kept_mib}
    memory |= {name: mib << 20 for name, mib in asked.items() if mib is not None}
    forward = policy_forward(module, 1.0, **memory)
    engine = TorchEngine(
        module,
        forward,
        optim=OptimConfig(1e-6, 0.01, (0.9, 0.999), 1e-8, 1.0, "constant", 0, args.master_dtype),
        recompute=recompute,  # type: ignore[arg-type]
        compiled={"auto": "auto", "true": True, "false": False}[args.compile],  # type: ignore[arg-type]
        tokens=args.tokens or case.tokens,
        sequences=max(1, (args.tokens or case.tokens) // (case.prompt + case.longest)),
    )
    if args.padded:
        engine.packed = False
    return engine


def loss_of(out: Any, micro: Any) -> Any:
    """A policy gradient with ratios, summed, and the entropy as a stat."""
    logprobs, entropy = out
    ratio = (logprobs - logprobs.detach()).exp()
    mask = micro.response_mask
    return -(ratio * micro.advantages * mask).sum() / 1e5, {"entropy": (entropy * mask).sum()}


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run a case; returns its figures."""
    import torch
    import transformers

    case = CASES[name]
    engine = make_engine(case, args)
    batch = make_batch(case, args.device)
    wait = torch.cuda.synchronize if args.device == "cuda" else lambda: None
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds, first = [], 0.0
    for step in range(args.warm + args.steps):
        wait()
        started = time.perf_counter()
        result = engine.update(engine.plan_micro_batches(batch), loss_of, lr=1e-6)
        wait()
        seconds.append(time.perf_counter() - started)
        if step == 0:
            first = time.time() - psutil.Process().create_time()
    assert result.applied, result
    lengths, predicted = batch.attention_mask.sum(-1).tolist(), int(batch.response_mask.sum())
    step_seconds = statistics.median(seconds[args.warm :])
    peak = torch.cuda.max_memory_allocated() if args.device == "cuda" else psutil.Process().memory_info().rss
    work = flops(case.shape, lengths, predicted)
    return {
        "benchmark": "update",
        "case": name,
        "seconds": round(step_seconds, 4),
        "least": round(min(seconds[args.warm :]), 4),
        "most": round(max(seconds[args.warm :]), 4),
        "tokens": sum(lengths),
        "tokens_per_second": round(sum(lengths) / step_seconds),
        "mfu": round(work / step_seconds / PEAK_FLOPS, 4),
        "mfu_head_on_all": round(flops(case.shape, lengths, sum(lengths)) / step_seconds / PEAK_FLOPS, 4),
        "peak_gib": round(peak / 2**30, 2),
        "first_step_seconds_from_launch": round(first, 1),
        "first_steps_seconds": [round(s, 2) for s in seconds[: args.warm]],
        "packed": engine.packed,
        "loss": result.loss,
        "settings": {k: v for k, v in vars(args).items() if k not in ("case", "save")},
        "machine": torch.cuda.get_device_name() if args.device == "cuda" else f"CPU, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*CASES, "all"], default="a", help="all: a, b and c one after the other")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--compile", choices=["auto", "true", "false"], default="auto")
    parser.add_argument("--recompute", choices=["none", "full", "selective", "offload"])
    parser.add_argument("--tokens", type=int, help="of a micro batch")
    parser.add_argument("--chunk-mib", type=int, help="fp32 logits at once")
    parser.add_argument("--kept-mib", type=int, help="probabilities kept for the backward pass")
    parser.add_argument("--master-dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--padded", action="store_true", help="batches with their padding, the model's own head")
    parser.add_argument("--warm", type=int, default=3, help="steps before the measured ones")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--save", type=Path, help="append the JSON lines here")
    args = parser.parse_args()
    for name in ("a", "b", "c") if args.case == "all" else (args.case,):
        line = json.dumps(measure(name, args))
        print(line, flush=True)
        if args.save is not None:
            args.save.parent.mkdir(parents=True, exist_ok=True)
            with args.save.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
