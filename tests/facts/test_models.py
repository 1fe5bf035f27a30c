from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from verlcli.facts import ModelShape, known_models, model_shape, shape_from_config
from verlcli.facts.models import _table

QWEN = "Qwen/Qwen2.5-7B-Instruct"
TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
}


@pytest.fixture(autouse=True)
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and a working folder without models."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".cache" / "huggingface" / "hub"


def write(folder: Path, content: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(content, encoding="utf-8")
    return folder


def cache(hub: Path, name: str, content: str) -> None:
    repository = hub / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc123\n", encoding="utf-8")
    write(repository / "snapshots" / "abc123", content)


def found(path: str) -> ModelShape:
    shape = model_shape(path)
    assert shape is not None
    return shape


def test_a_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "tiny", json.dumps(TINY))
    monkeypatch.setenv("MODELS", str(tmp_path))
    for path in (str(folder), "~/tiny", "$MODELS/tiny", "./tiny", f" {folder}/ "):
        assert found(path).hidden_size == 64
    assert found(str(folder)).source == f"config.json of {folder}"


def test_a_folder_that_is_here_wins_over_the_table(tmp_path: Path) -> None:
    write(tmp_path / "Qwen" / "Qwen2.5-7B-Instruct", json.dumps(TINY))
    assert found(QWEN).hidden_size == 64


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '"llama"',
        '{"hidden_size": 64}',
        "[" * 100_000,
        json.dumps({**TINY, "vocab_size": -1}),
    ],
)
def test_a_malformed_config_is_unknown_even_under_a_known_name(tmp_path: Path, content: str) -> None:
    assert model_shape(str(write(tmp_path / "Qwen2.5-7B-Instruct", content))) is None


def test_a_folder_without_a_config_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "Qwen2.5-7B-Instruct").mkdir()
    assert model_shape(str(tmp_path / "Qwen2.5-7B-Instruct")) is None


def test_a_config_that_is_not_text_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_bytes(b"\xff\xfe\x00")
    assert model_shape(str(tmp_path / "m")) is None


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({}, ".cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "~/xdg"}, "xdg/huggingface/hub"),
        ({"HF_HOME": "~/hf", "XDG_CACHE_HOME": "~/xdg"}, "hf/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "~/old", "HF_HOME": "~/hf"}, "old"),
        ({"HF_HUB_CACHE": "~/new", "HUGGINGFACE_HUB_CACHE": "~/old"}, "new"),
    ],
)
def test_the_hub_cache_is_where_hugging_face_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cache(tmp_path / folder, "me/tiny", json.dumps(TINY))
    assert (found("me/tiny").hidden_size, found("me/tiny").source) == (64, "hub cache")


def test_the_hub_cache_wins_over_the_table_unless_it_is_broken(hub: Path) -> None:
    cache(hub, QWEN, json.dumps(TINY))
    assert found(QWEN).hidden_size == 64
    cache(hub, "Qwen/Qwen3-8B", "{")
    assert found("Qwen/Qwen3-8B").hidden_size == 4096


def test_a_download_without_its_revision_is_unknown(hub: Path) -> None:
    cache(hub, "me/tiny", json.dumps(TINY))
    (hub / "models--me--tiny" / "refs" / "main").unlink()
    assert model_shape("me/tiny") is None


@pytest.mark.parametrize(
    "path",
    [
        QWEN,
        "qwen/qwen2.5-7b-instruct",
        "/models/Qwen2.5-7B-Instruct",
        "/models/Qwen2.5-7B-Instruct/",
        "$HOME/models/Qwen2.5-7B-Instruct",
        "${UNSET_ROOT}/Qwen2.5-7B-Instruct",
        "hdfs://user/models/Qwen2.5-7B-Instruct",
        "C:\\models\\Qwen2.5-7B-Instruct",
        "/cache/modelscope/Qwen/Qwen2___5-7B-Instruct",
        "/hf/hub/models--Qwen--Qwen2.5-7B-Instruct/snapshots/abc123",
        "unsloth/Qwen2.5-7B-Instruct",
    ],
)
def test_a_model_on_another_machine_is_known_by_its_name(path: str) -> None:
    shape = found(path)
    assert (shape.hidden_size, shape.num_key_value_heads, shape.max_length) == (3584, 4, 32768)
    assert shape.source.startswith("verlcli's table of known models")
    assert (QWEN in shape.source) == (path.casefold() != QWEN.casefold())


@pytest.mark.parametrize(
    "path",
    [
        "",
        "  ",
        "/",
        "me/unheard-of-7b",
        "/ckpt/global_step_100/actor",
        "Qwen2.5-7B-Instruct-my-run",
        "..",
        "a\0b",
        "x" * 5000,
    ],
)
def test_what_nobody_knows_is_none(path: str) -> None:
    assert model_shape(path) is None


def test_variants_that_differ_are_kept_apart() -> None:
    assert found("Qwen/Qwen2.5-7B").max_length == 131072
    assert found("Qwen/Qwen2.5-Math-7B").max_length == 4096
    assert found("Qwen/Qwen3-8B").max_length == 40960
    assert found("Qwen/Qwen3-8B-Base").max_length == 32768
    assert found("mistralai/Mistral-7B-v0.1").vocab_size == 32000
    assert found("mistralai/Mistral-7B-v0.3").vocab_size == 32768
    assert not found("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B").tie_word_embeddings
    assert found("Qwen/Qwen2.5-Math-1.5B").tie_word_embeddings


def test_the_table_has_no_name_twice() -> None:
    names = [name.casefold() for name in known_models()]
    assert len(names) == len(set(names)) >= 150
    last = [name.rpartition("/")[2] for name in names]
    assert len(last) == len(set(last))


@pytest.mark.parametrize("entry", _table(), ids=lambda entry: entry["ids"][0])
def test_every_row_is_a_possible_model(entry: dict[str, Any]) -> None:
    shape = shape_from_config(entry["config"], "a test")
    assert shape.architectures
    assert shape.num_attention_heads % shape.num_key_value_heads == 0
    assert shape.hidden_size % 64 == 0
    assert shape.head_dim % 32 == 0
    assert shape.vocab_size >= 32000
    assert 2048 <= shape.max_length <= 1_010_000
    assert shape.vision == ("Conditional" in shape.architectures[0])
    assert (shape.num_experts > 0) == (shape.moe_layers > 0) == (shape.experts_per_token > 0)


@pytest.mark.parametrize(
    ("name", "length"),
    [("deepseek-ai/DeepSeek-V3", 163840), ("openai/gpt-oss-20b", 131072), ("google/gemma-3-4b-it", 131072)],
)
def test_scaled_lengths_of_the_table(name: str, length: int) -> None:
    assert found(name).max_length == length


def test_quantized_models_say_so() -> None:
    assert found("deepseek-ai/DeepSeek-R1").quantized == "fp8"
    assert found("openai/gpt-oss-20b").quantized == "mxfp4"
    assert found(QWEN).quantized is None
