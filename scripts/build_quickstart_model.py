"""Build `presets/quickstart-model`: a Llama of one million parameters that half knows how to add.

    python scripts/build_quickstart_model.py [--output DIR] [--steps N]

It is pretrained from scratch on additions as careless people write them: two times out of three a carry is forgotten
(47+85=22). So the likeliest answer is wrong wherever a carry is needed, while the right one keeps a third of the
probability: what a policy gradient can bring out. The held-out problems of the `arithmetic` source are never seen.
About six minutes on two CPU cores; the same seed gives the same weights on the same kind of machine.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from verlcli.engine.data.arithmetic import ArithmeticDataset, arithmetic_datasets

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "presets" / "quickstart-model"
# As in presets/quickstart.yaml: all 10,000 problems, 400 of them held out.
SOURCE_ARGS = {"operations": ["+"], "max_operand": 99, "train_size": 9600, "val_size": 400, "template": "{a}{op}{b}="}
PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
FORGOTTEN_CARRIES = 0.65  # share of the pretraining texts
STEPS, WARMUP_STEPS, BATCH_SIZE, LEARNING_RATE, SEED = 1200, 100, 256, 2e-3, 0
MAX_NEW_TOKENS = 4  # three digits and <eos>
SAMPLES = 8  # a problem, for pass@8
IGNORED = -100  # label of tokens without a loss


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of problems, 0 to 1."""

    greedy: float
    sampled: float  # mean over the samples of a problem at temperature 1
    pass_at_8: float

    def __str__(self) -> str:
        return f"greedy {self.greedy:.1%}, sampled {self.sampled:.1%}, pass@8 {self.pass_at_8:.1%}"


def forget_carries(a: int, b: int) -> int:
    """The sum of two numbers below 100, each column added alone: 47+85 gives 22."""
    return (a // 10 + b // 10) % 10 * 10 + (a % 10 + b % 10) % 10


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; adds no special tokens by itself and decodes to the same text."""
    vocabulary = [PAD, BOS, EOS, UNK, *"0123456789+="]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=64,
    )


def build_model(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """The untrained model, in fp32."""
    special = {
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=640,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            **special,
        )
    )
    model.generation_config = GenerationConfig(max_new_tokens=MAX_NEW_TOKENS, **special)
    return model


def written_rows(problems: ArithmeticDataset, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Endless pretraining texts as (prompt, answer), the careless share drawn anew each time."""
    while True:
        index = rng.randrange(len(problems))
        row = problems[index]
        a, _, b = problems.problem(index)
        answer = str(forget_carries(a, b)) if rng.random() < FORGOTTEN_CARRIES else row.ground_truth
        # Half of the texts begin with <bos>, so that the model works with and without it.
        yield (BOS if rng.random() < 0.5 else "") + str(row.prompt), answer + EOS


def batches(
    tokenizer: PreTrainedTokenizerFast, problems: ArithmeticDataset, rng: random.Random
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless (tokens[B, T], labels[B, T]), padded on the right; only the answer has a loss."""
    rows = written_rows(problems, rng)
    while True:
        texts = [next(rows) for _ in range(BATCH_SIZE)]
        tokens = tokenizer([prompt + answer for prompt, answer in texts], padding=True, padding_side="right").input_ids
        labels = [
            [token if start <= i and token != tokenizer.pad_token_id else IGNORED for i, token in enumerate(row)]
            for row, start in zip(tokens, (len(tokenizer.encode(prompt)) for prompt, _ in texts), strict=True)
        ]
        yield torch.tensor(tokens), torch.tensor(labels)


def pretrain(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, train: ArithmeticDataset, steps: int) -> None:
    """AdamW with a cosine schedule, in place."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / WARMUP_STEPS) * (1 + math.cos(math.pi * step / steps)) / 2
    )
    data = batches(tokenizer, train, random.Random(SEED))
    model.train()
    for step in range(1, steps + 1):
        tokens, labels = next(data)
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % 200 == 0 or step == steps:
            print(f"step {step}/{steps} loss {loss.item():.3f}", flush=True)


def measure_accuracy(model: Any, tokenizer: Any, problems: ArithmeticDataset) -> Accuracy:
    """Exact match of the whole answer, greedy and at temperature 1."""
    rows = [problems[i] for i in range(len(problems))]
    inputs = tokenizer([row.prompt for row in rows], padding=True, return_tensors="pt", return_token_type_ids=False)
    model.eval()

    def right(samples: int) -> torch.Tensor:
        """Whether each sample is right: [problem, sample]."""
        kind: dict[str, Any] = {"do_sample": False} if samples == 1 else {"do_sample": True, "top_k": 0}
        tokens = model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, num_return_sequences=samples, **kind)
        answers = tokenizer.batch_decode(tokens[:, inputs.input_ids.shape[1] :], skip_special_tokens=True)
        truths = [row.ground_truth for row in rows for _ in range(samples)]
        return torch.tensor([a == t for a, t in zip(answers, truths, strict=True)]).view(-1, samples)

    sampled = right(SAMPLES)
    return Accuracy(
        greedy=right(1).float().mean().item(),
        sampled=sampled.float().mean().item(),
        pass_at_8=sampled.any(dim=1).float().mean().item(),
    )


def build(output: Path, steps: int = STEPS) -> Accuracy:
    """Pretrain, save in fp16 and measure on the held-out problems what was saved."""
    torch.manual_seed(SEED)
    train, held_out = arithmetic_datasets(SOURCE_ARGS)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer)
    pretrain(model, tokenizer, train, steps)
    model.half().save_pretrained(output)
    tokenizer.save_pretrained(output)
    return measure_accuracy(model.float(), tokenizer, held_out)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--steps", type=int, default=STEPS)
    args = parser.parse_args()
    torch.set_num_threads(2)
    start = time.perf_counter()
    accuracy = build(args.output, args.steps)
    size_bytes = sum(path.stat().st_size for path in args.output.iterdir())
    print(f"held out: {accuracy}; {size_bytes / 1e6:.2f} MB in {args.output}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
