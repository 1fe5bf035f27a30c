"""The vllm rollout engine where there is no vLLM: arguments, results, weights, and what it says about this machine."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.engine.rollout import Sampling
from verlcli.engine.rollout._vllm_requests import sampling_arguments, to_rollout, write_skeleton
from verlcli.engine.rollout._vllm_start import check_usable
from verlcli.engine.rollout.stopping import StopStrings
from verlcli.engine.rollout.vllm import VllmRollout
from verlcli.errors import ConfigError, MissingDependencyError, TrainingFailedError

CPU = torch.device("cpu")


@dataclass
class FlatLogprobs:
    """`vllm.logprobs.FlatLogprobs`: one or more (token, log-prob) a position, the drawn token first."""

    start_indices: list[int] = field(default_factory=list)
    end_indices: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def append(self, position: dict[int, float]) -> None:
        self.start_indices.append(len(self.logprobs))
        self.token_ids += position.keys()
        self.logprobs += position.values()
        self.end_indices.append(len(self.logprobs))


@dataclass
class CompletionOutput:
    """`vllm.outputs.CompletionOutput`, what of it is read."""

    index: int
    token_ids: list[int]
    logprobs: FlatLogprobs
    finish_reason: str | None = "stop"


def answer(tokens: list[int], logprobs: list[float], *, finish: str | None = "stop", index: int = 0) -> Any:
    flat = FlatLogprobs()
    for token, logprob in zip(tokens, logprobs, strict=True):
        flat.append({token: logprob})
    return CompletionOutput(index, tokens, flat, finish)


def test_answers_become_the_rows_that_every_engine_gives() -> None:
    answers = [answer([5, 6, 2], [-1.0, -2.0, -0.5]), answer([7], [-0.1], finish="length")]
    answers += [answer([8, 2], [-3.0, -4.0]), answer([9, 9, 9, 9], [-1.0] * 4, finish="length")]
    rollout = to_rollout([[4, 5], [6]], answers, pad_id=0, device=CPU)
    assert rollout.prompt_ids.tolist() == [[4, 5], [4, 5], [0, 6], [0, 6]]
    assert rollout.prompt_mask.tolist() == [[1, 1], [1, 1], [0, 1], [0, 1]]
    assert rollout.tokens.tolist() == [[5, 6, 2, 0], [7, 0, 0, 0], [8, 2, 0, 0], [9, 9, 9, 9]]
    assert rollout.mask.sum(-1).tolist() == [3, 1, 2, 4]
    assert rollout.mask.dtype == torch.bool
    assert rollout.logprobs.tolist() == [[-1, -2, -0.5, 0], [pytest.approx(-0.1), 0, 0, 0], [-3, -4, 0, 0], [-1] * 4]


def test_the_drawn_tokens_logprob_is_taken_where_vllm_lists_more() -> None:
    flat = FlatLogprobs()
    flat.append({5: -2.0, 7: -0.5})
    flat.append({7: -0.25})
    rollout = to_rollout([[4]], [CompletionOutput(0, [5, 7], flat)], pad_id=0, device=CPU)
    assert rollout.logprobs.tolist() == [[-2.0, -0.25]]


def test_a_stop_string_among_the_first_min_tokens_cuts_what_ran_on() -> None:
    stops = StopStrings(lambda ids: "".join("abcdef"[i] for i in ids), ("bc", "e"))
    answers = [answer([0, 1, 2, 3], [-1.0, -2.0, -3.0, -4.0]), answer([0, 0, 0], [-1.0] * 3, finish="length")]
    rollout = to_rollout([[4]], answers, pad_id=5, device=CPU, stops=stops)
    assert rollout.tokens.tolist() == [[0, 1, 2], [0, 0, 0]]
    assert rollout.logprobs.tolist() == [[-1, -2, -3], [-1, -1, -1]]
    assert rollout.mask.all()


@pytest.mark.parametrize("logprob", [math.nan, -math.inf])
def test_a_policy_that_diverged_stops_the_run(logprob: float) -> None:
    with pytest.raises(TrainingFailedError, match="the policy diverged"):
        to_rollout([[4]], [answer([5, 6], [-1.0, logprob])], pad_id=0, device=CPU)


@pytest.mark.parametrize("reason", ["abort", "error", None])
def test_an_answer_that_vllm_gave_up_stops_the_run(reason: str | None) -> None:
    with pytest.raises(TrainingFailedError, match=f"gave an answer up \\({reason}\\)"):
        to_rollout([[4]], [answer([5], [-1.0], finish=reason)], pad_id=0, device=CPU)


def test_sampling_is_vllms_with_our_end_tokens_alone() -> None:
    sampling = Sampling(32, temperature=0.7, top_p=0.9, top_k=50, min_tokens=4, stop=("</answer>",))
    assert sampling_arguments(sampling, 8, (2, 7)) == {
        "n": 8,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 50,
        "max_tokens": 32,
        "min_tokens": 4,
        "stop": ["</answer>"],
        "stop_token_ids": [2, 7],
        "ignore_eos": True,
        "logprobs": 0,
        "flat_logprobs": True,
        "detokenize": True,
        "skip_special_tokens": False,
    }


def test_text_is_made_for_stop_strings_only_and_min_tokens_stay_below_max() -> None:
    arguments = sampling_arguments(Sampling(8, min_tokens=20), 1, (2,))
    assert (arguments["detokenize"], arguments["min_tokens"]) == (False, 8)


def test_a_temperature_that_vllm_would_change_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"vLLM samples at 0.01 and above, 0.001 is asked for") as caught:
        sampling_arguments(Sampling(8, temperature=0.001), 1, (2,))
    assert caught.value.where == "rollout.temperature"
    assert sampling_arguments(Sampling(8, temperature=0.0), 1, (2,))["temperature"] == 0.0


@pytest.fixture
def vllm_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """As if this version of vLLM were installed: its metadata is all that is looked at."""
    folder = tmp_path / f"vllm-{request.param}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {request.param}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.path_importer_cache.clear()


def test_several_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match="shares one GPU with the trainer, 2 are asked for") as caught:
        check_usable(torch.device("cuda"), 2)
    assert caught.value.where == "rollout.tensor_model_parallel_size"


def test_without_vllm_its_install_line_is_named(tiny_model: Path) -> None:
    try:
        metadata.version("vllm")
    except metadata.PackageNotFoundError:
        from transformers import AutoModelForCausalLM

        model = AutoModelForCausalLM.from_pretrained(tiny_model)
        with pytest.raises(MissingDependencyError, match="vLLM is not installed") as caught:
            VllmRollout(model, None, eos_ids=[2], pad_id=0, max_model_len=32)
        assert "pip install 'vllm>=0.24'" in str(caught.value.fix)
    else:
        pytest.skip("vLLM is installed")


@pytest.mark.parametrize(
    ("vllm_version", "device", "error", "message"),
    [
        ("0.9.2", "cuda", MissingDependencyError, "vLLM 0.9.2 is too old"),
        ("0.24.0", "cpu", MissingDependencyError, "needs a CUDA device, the trainer is on cpu"),
        ("0.24.0+cu130", "cuda:1", ConfigError, "runs on the first visible GPU, the trainer is on cuda:1"),
        ("0.25.0rc1", "cuda:0", None, ""),
    ],
    indirect=["vllm_version"],
)
@pytest.mark.usefixtures("vllm_version")
def test_where_vllm_cannot_run_the_reason_and_the_way_out_are_said(device: str, error: Any, message: str) -> None:
    if error is None:
        check_usable(torch.device(device))
        return
    with pytest.raises(error, match=message) as caught:
        check_usable(torch.device(device))
    assert caught.value.fix


def test_the_folder_vllm_starts_from_has_all_but_the_weights(tiny_model: Path, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.config.architectures = None  # as after a GGUF file
    write_skeleton(model, AutoTokenizer.from_pretrained(tiny_model), (2, 5), str(tmp_path))
    config = AutoConfig.from_pretrained(tmp_path)
    assert (config.architectures, config.eos_token_id) == (["LlamaForCausalLM"], [2, 5])
    assert AutoTokenizer.from_pretrained(tmp_path).eos_token == "<eos>"
    assert not list(tmp_path.glob("*.safetensors"))
    assert model.config.architectures is None
