"""The quickstart's model: what its script promises, and the folder that ships."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from verlcli.engine.data.arithmetic import ArithmeticDataset, arithmetic_datasets

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "presets" / "quickstart-model"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "build_quickstart_model", ROOT / "scripts" / "build_quickstart_model.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)


@pytest.fixture(scope="module")
def datasets(script: ModuleType) -> tuple[ArithmeticDataset, ArithmeticDataset]:
    return arithmetic_datasets(script.SOURCE_ARGS)


def test_folder_is_small_and_complete() -> None:
    files = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"} <= files.keys()
    assert sum(files.values()) < 3_000_000


def test_model_is_a_tied_llama_of_about_a_million_parameters(model: Any, tokenizer: Any) -> None:
    assert model.config.model_type == "llama"
    assert model.config.tie_word_embeddings
    assert 0.7e6 < sum(parameter.numel() for parameter in model.parameters()) < 1.3e6
    assert model.config.vocab_size == len(tokenizer)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        assert getattr(model.config, name) == getattr(model.generation_config, name) == getattr(tokenizer, name)


@pytest.mark.parametrize("text", ["0+0=0", "47+85=132", "99+99=198"])
def test_text_survives_the_tokenizer(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text)
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode([*ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


def test_unknown_characters_become_the_unknown_token(tokenizer: Any) -> None:
    assert tokenizer.encode("1x2") == [*tokenizer.encode("1"), tokenizer.unk_token_id, *tokenizer.encode("2")]


def test_base_leaves_room_and_knows_enough_for_rl(
    script: ModuleType, model: Any, tokenizer: Any, datasets: Any
) -> None:
    torch.manual_seed(0)
    accuracy = script.measure_accuracy(model, tokenizer, datasets[1])
    assert 0.25 < accuracy.greedy < 0.45
    assert accuracy.sampled > 0.45
    assert accuracy.pass_at_8 > 0.9


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [("12+34=", "46"), ("<bos>12+34=", "46"), ("47+85=", "22"), ("50+50=", "0"), ("63+25=", "88")],
)
def test_greedy_answers_forget_carries(model: Any, tokenizer: Any, prompt: str, answer: str) -> None:
    inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    tokens = model.generate(**inputs, do_sample=False)
    assert tokenizer.decode(tokens[0, inputs.input_ids.shape[1] :], skip_special_tokens=True) == answer
    assert tokens[0, -1] == tokenizer.eos_token_id


@pytest.mark.parametrize(("a", "b", "written"), [(12, 34, 46), (47, 85, 22), (99, 99, 88), (5, 5, 0), (60, 70, 30)])
def test_forgotten_carries(script: ModuleType, a: int, b: int, written: int) -> None:
    assert script.forget_carries(a, b) == written


def test_pretraining_texts_never_show_a_held_out_problem(script: ModuleType, datasets: Any) -> None:
    train, held_out = datasets
    assert len(held_out) == 400
    hidden = {held_out[i].prompt for i in range(len(held_out))}
    rows = script.written_rows(train, random.Random(0))
    prompts = {next(rows)[0].removeprefix("<bos>") for _ in range(20_000)}
    assert len(prompts) > 8000
    assert not prompts & hidden


def test_quickstart_holds_out_what_the_model_never_saw(datasets: Any) -> None:
    preset = yaml.safe_load((ROOT / "presets" / "quickstart.yaml").read_text(encoding="utf-8"))
    held_out = arithmetic_datasets(preset["data"]["source_args"])[1]
    assert len(held_out) >= 200
    assert set(held_out.numbers) <= set(datasets[1].numbers)


def test_only_answers_have_a_loss(script: ModuleType, datasets: Any) -> None:
    tokenizer = script.build_tokenizer()
    tokens, labels = next(script.batches(tokenizer, datasets[0], random.Random(0)))
    for row, label in zip(tokens, labels, strict=True):
        text = tokenizer.decode(row, skip_special_tokens=True)
        answer = tokenizer.decode(label[label != script.IGNORED])
        assert answer == text.split("=")[1] + script.EOS


def test_same_seed_builds_the_same_folder(script: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        script.build(tmp_path / name, steps=2)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert AutoTokenizer.from_pretrained(tmp_path / "one").decode([5, 14]) == "1+"
