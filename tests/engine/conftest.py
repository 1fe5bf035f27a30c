"""A tiny real model with a character tokenizer, and configs that train it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

CHARACTERS = "0123456789+-*= "


def build_tiny_model(folder: Path, *, seed: int = 0, **changes: Any) -> Path:
    """Write a random Llama of about 80k parameters and its tokenizer in Hugging Face format."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {"<pad>": 0, "<bos>": 1, "<eos>": 2, "<unk>": 3} | {c: i + 4 for i, c in enumerate(CHARACTERS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>"
    ).save_pretrained(folder)
    sizes = {
        "vocab_size": len(vocabulary),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    torch.manual_seed(seed)
    LlamaForCausalLM(LlamaConfig(**(sizes | changes))).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


Settings = Callable[..., dict[str, Any]]


@pytest.fixture
def settings(tiny_model: Path, tmp_path: Path) -> Settings:
    """`settings(**{"rollout.n": 2})`: dotted keys of a small run, with changes."""

    def make(**changes: Any) -> dict[str, Any]:
        return {
            "model.path": str(tiny_model),
            "data.source": "arithmetic",
            "data.source_args": {"max_operand": 9, "train_size": 60, "val_size": 20},
            "data.train_batch_size": 8,
            "data.max_prompt_length": 16,
            "data.max_response_length": 3,
            "rollout.n": 4,
            "actor.optim.lr": 1e-3,
            "trainer.total_steps": 4,
            "trainer.save_freq": 2,
            "trainer.test_freq": 2,
            "trainer.output_dir": str(tmp_path / "run"),
        } | changes

    return make
