from __future__ import annotations

from typing import Any

import pytest

from verlcli.facts import ModelShape, model_shape
from verlcli.facts.models import _table
from verlcli.facts.vision import vision_params

# Parameters that the hub shows (safetensors metadata) or the model's paper states, in billions.
PUBLISHED = {
    "Qwen/Qwen2.5-0.5B": 0.494,
    "Qwen/Qwen2.5-1.5B": 1.544,
    "Qwen/Qwen2.5-3B": 3.086,
    "Qwen/Qwen2.5-7B": 7.616,
    "Qwen/Qwen2.5-14B": 14.77,
    "Qwen/Qwen2.5-32B": 32.76,
    "Qwen/Qwen2.5-72B": 72.71,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1.777,
    "Qwen/Qwen3-0.6B": 0.596,
    "Qwen/Qwen3-4B": 4.022,
    "Qwen/Qwen3-8B": 8.191,
    "Qwen/Qwen3-32B": 32.76,
    "Qwen/Qwen3-30B-A3B": 30.53,
    "Qwen/Qwen3-235B-A22B": 235.1,
    "meta-llama/Llama-2-7b-hf": 6.738,
    "meta-llama/Llama-2-70b-hf": 68.98,
    "meta-llama/Llama-3.1-8B": 8.03,
    "meta-llama/Llama-3.1-70B": 70.55,
    "meta-llama/Llama-3.2-1B": 1.236,
    "meta-llama/Llama-3.2-3B": 3.213,
    "mistralai/Mistral-7B-v0.1": 7.242,
    "mistralai/Mixtral-8x7B-v0.1": 46.70,
    "google/gemma-2-2b": 2.614,
    "google/gemma-2-9b": 9.242,
    "google/gemma-2-27b": 27.23,
    "google/gemma-3-1b-it": 1.0,
    "microsoft/Phi-3-mini-4k-instruct": 3.821,
    "microsoft/phi-4": 14.66,
    "microsoft/Phi-4-mini-instruct": 3.836,
    "deepseek-ai/deepseek-llm-7b-chat": 6.91,
    "deepseek-ai/DeepSeek-V3": 671.0,
    "HuggingFaceTB/SmolLM2-135M": 0.1345,
    "HuggingFaceTB/SmolLM2-360M": 0.3618,
    "HuggingFaceTB/SmolLM2-1.7B": 1.711,
    "Qwen/Qwen3.5-27B": 26.9,
    "openai/gpt-oss-20b": 20.91,
    "openai/gpt-oss-120b": 116.8,
}


def known(name: str) -> ModelShape:
    shape = model_shape(name)
    assert shape is not None
    return shape


@pytest.mark.parametrize(("name", "billions"), PUBLISHED.items())
def test_params_are_the_published_ones(name: str, billions: float) -> None:
    assert known(name).params == pytest.approx(billions * 1e9, rel=0.005)


def test_a_family_that_is_not_known_has_no_count() -> None:
    assert known("XiaomiMiMo/MiMo-7B-RL").params is None


def test_a_vision_model_counts_its_language_part() -> None:
    assert known("Qwen/Qwen2.5-VL-7B-Instruct").params == known("Qwen/Qwen2.5-7B").params


VISION = sorted(entry["ids"][0] for entry in _table() if "vision_config" in entry["config"])


@pytest.mark.parametrize("name", VISION)
def test_vision_params_are_those_that_transformers_builds(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape, config = known(name), next(entry["config"] for entry in _table() if name in entry["ids"])
    tower = {key: value for key, value in config["vision_config"].items() if key != "model_type"}
    out = {"qwen2_vl": {"hidden_size": shape.hidden_size}, "gemma3": {"vision_use_head": False}}
    tower |= out.get(shape.model_type, {"out_hidden_size": shape.hidden_size})
    # One small layer stands for the language part, which is not counted here.
    text = {"hidden_size": shape.hidden_size, "num_hidden_layers": 1, "vocab_size": 1000, "intermediate_size": 64}
    made = transformers.AutoConfig.for_model(shape.model_type, text_config=text, vision_config=tower)
    with torch.device("meta"):
        model = transformers.AutoModelForImageTextToText.from_config(made)
    parts = ("visual", "vision_tower", "multi_modal_projector")
    built = sum(weight.numel() for key, weight in model.named_parameters() if any(part in key for part in parts))
    assert shape.vision_params == built


@pytest.mark.parametrize(
    ("family", "tower"),
    [
        ("qwen2_5_vl", {"depth": 32}),
        ("qwen2_5_vl", {"depth": "x", "hidden_size": 1280, "intermediate_size": 3420}),
        (
            "gemma3",
            {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "patch_size": 0, "image_size": 8},
        ),
        ("unheard_of_vl", {"depth": 32, "hidden_size": 1280}),
    ],
)
def test_a_tower_that_is_not_understood_has_no_count(family: str, tower: dict[str, Any]) -> None:
    assert vision_params(family, tower, 2048) is None


def test_a_text_model_has_no_tower() -> None:
    assert known("Qwen/Qwen3-8B").vision_params == 0


def test_kv_cache_of_one_token() -> None:
    assert known("Qwen/Qwen2.5-7B").kv_numbers_per_token == 28 * 2 * 4 * 128
    assert known("deepseek-ai/DeepSeek-V3").kv_numbers_per_token == 61 * 576
    assert known("Qwen/Qwen3.5-27B").kv_numbers_per_token == 16 * 2 * 4 * 256
