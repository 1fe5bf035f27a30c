"""Versions, what they require, and what their reward function scores."""

from __future__ import annotations

import pytest
from packaging.version import Version

from verlcli.errors import ConfigError
from verlcli.facts.verl import VERSIONS
from verlcli.facts.verl.engine_args import engine_args
from verlcli.facts.verl.versions import (
    REQUIREMENTS,
    VLLM_LORA_RANKS,
    is_optional,
    nearest_version,
    parse_version,
    requirement,
    scores_source,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.9.1", "0.9.1"),
        ("v0.9.1", "0.9.1"),
        ("verl==0.9.0", "0.9.0"),
        ("0.9", "0.9.0"),
        ("0.7.0", "0.7.1"),
        ("0.6.0", "0.6.1"),
        ("0.4.1", "0.5.0"),
        ("0.2", "0.5.0"),
        ("0.9.2", "0.9.1"),
        ("0.10.0.dev", "main"),
        ("main", "main"),
        ("1.0", "main"),
    ],
)
def test_nearest_version(text: str, expected: str) -> None:
    assert nearest_version(text) == expected


@pytest.mark.parametrize("text", ["", "latest", "0.x", "v"])
def test_no_version(text: str) -> None:
    with pytest.raises(ConfigError, match="is no version of verl"):
        parse_version(text)


@pytest.mark.parametrize("version", VERSIONS)
def test_requirements_parse(version: str) -> None:
    for package in REQUIREMENTS[version]:
        assert requirement(package.removeprefix("extra:"), version) is not None


@pytest.mark.parametrize(
    ("package", "version", "installed", "fits"),
    [
        ("transformers", "0.9.1", "5.6.0", False),
        ("transformers", "0.9.1", "5.9.0", True),
        ("numpy", "0.8.0", "2.1.0", False),
        ("numpy", "0.9.0", "1.26.4", False),
        ("vllm", "0.9.1", "0.24.0", True),
        ("vllm", "0.9.0", "0.12.0", False),
        ("python", "0.9.1", "3.13.1", False),
        ("tensordict", "0.9.1", "0.9.0", False),
    ],
)
def test_requirement(package: str, version: str, installed: str, fits: bool) -> None:
    found = requirement(package, version)
    assert found is not None
    assert (Version(installed) in found) is fits


def test_optional_and_unknown_packages() -> None:
    assert is_optional("vllm", "0.9.1")
    assert not is_optional("numpy", "0.9.1")
    assert requirement("wandb", "0.9.1") is None


@pytest.mark.parametrize(
    ("source", "version", "known"),
    [
        ("openai/gsm8k", "0.9.1", True),
        ("aime_2024", "0.5.0", True),
        ("math_dapo_reasoning", "0.5.0", False),
        ("math_dapo_reasoning", "0.6.1", True),
        ("my/data", "0.9.1", False),
    ],
)
def test_reward_sources(source: str, version: str, known: bool) -> None:
    assert scores_source(source, version) is known


def test_lora_ranks_end_at_512() -> None:
    assert {ranks[-1] for ranks in VLLM_LORA_RANKS.values()} == {512}


def test_engine_arguments() -> None:
    vllm, sglang = engine_args("vllm"), engine_args("sglang")
    assert vllm is not None
    assert sglang is not None
    assert (vllm.version, sglang.version) == ("0.24.0", "0.5.12")
    assert vllm.knows("max_num_seqs")
    assert vllm.knows("enable-prefix-caching")
    assert vllm.knows("no-enable-prefix-caching")
    assert not vllm.knows("swap_spce")
    assert sglang.knows("mem_fraction_static")
    assert engine_args("trtllm") is None
