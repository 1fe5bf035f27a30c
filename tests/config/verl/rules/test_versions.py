from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.context import Context
from verlcli.config.problems import Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.read_script import read_script_runs

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
SEGMENTS = "max_split_size_mb:64,expandable_segments:True"
PIP = "ray_kwargs.ray_init.runtime_env.pip"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code]


@pytest.mark.parametrize(
    ("name", "version", "severity", "part"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "0.8.0", "error", "vLLM refuses in sleep mode"),
        ("PYTORCH_CUDA_ALLOC_CONF", "0.9.1", "note", "vLLM up to spring 2026 refuses"),
        ("PYTORCH_ALLOC_CONF", "0.9.1", "warning", "does not notice"),
    ],
)
def test_expandable_segments(problems_of: ProblemsOf, name: str, version: str, severity: str, part: str) -> None:
    (problem,) = of("VRL237", problems_of(version=version, env={name: SEGMENTS}))
    assert (problem.severity, problem.line) == (severity, 1)
    assert part in problem.message
    assert problem.suggestion is not None
    assert f"unset {name}" in problem.suggestion


@pytest.mark.parametrize(
    ("overrides", "env"),
    [
        ((), {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}),
        ((), {"PYTORCH_CUDA_ALLOC_CONF": None}),
        ((), {}),
        (("actor_rollout_ref.rollout.name=sglang",), {"PYTORCH_CUDA_ALLOC_CONF": SEGMENTS}),
        (("actor_rollout_ref.rollout.free_cache_engine=False",), {"PYTORCH_CUDA_ALLOC_CONF": SEGMENTS}),
        (("+actor_rollout_ref.rollout.enable_sleep_mode=False",), {"PYTORCH_CUDA_ALLOC_CONF": SEGMENTS}),
    ],
)
def test_an_allocator_that_vllm_bears(
    problems_of: ProblemsOf, overrides: tuple[str, ...], env: dict[str, str | None]
) -> None:
    assert of("VRL237", problems_of(*overrides, version="0.8.0", env=env)) == []


def test_expandable_segments_of_the_workers(problems_of: ProblemsOf) -> None:
    key = "ray_kwargs.ray_init.runtime_env.env_vars.PYTORCH_CUDA_ALLOC_CONF"
    (problem,) = of("VRL237", problems_of(f"+{key}='expandable_segments:True'", version="0.8.0"))
    assert (problem.severity, problem.path, problem.line) == ("error", key, FIRST)


def test_an_engine_of_another_version(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL239", problems_of(f"+{PIP}=['vllm==0.8.4', 'math-verify']"))
    assert (problem.severity, problem.path, problem.line) == ("warning", PIP, FIRST)
    assert problem.message == "vllm==0.8.4 does not suit verl 0.9.1"
    assert problem.suggestion == "it needs vllm==0.24.0"


def test_a_package_that_verl_imports(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL239", problems_of(f"+{PIP}={{packages: ['transformers==5.6.0']}}"))
    assert problem.severity == "error"
    assert "!=5.6.0" in str(problem.suggestion)


@pytest.mark.parametrize(
    "packages", ["['vllm==0.24.0']", "['vllm>=0.8']", "['vllm']", "['not a == package']", "['vllm==0.8.*']", "[3]", "x"]
)
def test_packages_that_suit(problems_of: ProblemsOf, packages: str) -> None:
    assert of("VRL239", problems_of(f"+{PIP}={packages}")) == []


@pytest.mark.parametrize(
    ("command", "severity", "words"),
    [
        ("pip install vllm==0.8.4", "warning", "vllm==0.24"),
        ("pip3 install -U 'transformers==5.6.0'", "error", "!=5.6.0"),
        ("uv pip install ray==2.40.0 numpy", "error", ">=2.41"),
        ("pip install 'numpy<2'", "error", "numpy>=2"),
        ("pip install 'numpy<=1.26,>=1.20'", "error", "numpy>=2"),
        ("pip install 'vllm>=0.30'", "warning", "vllm==0.24"),
    ],
)
def test_packages_that_the_script_installs(command: str, severity: str, words: str) -> None:
    launch = "python3 -m verl.trainer.main_ppo trainer.nnodes=1\n"
    runs, _ = read_script_runs("run.sh", f"#!/bin/bash\n{command}\n{launch}", Context())
    (problem,) = [found for found in check_rules(runs[0]) if found.code == "VRL239"]
    assert (problem.severity, problem.path, problem.file, problem.line) == (severity, "pip install", "run.sh", 2)
    assert words in (problem.suggestion or "")


@pytest.mark.parametrize(
    "command",
    [
        "pip install vllm==0.24.0 'numpy>=1'",
        "pip install 'numpy<=2.0.0' 'numpy>1,<3' 'numpy!=1.*' 'numpy<3.*'",
        "pip install -r requirements.txt",
        "conda activate x",
    ],
)
def test_packages_that_suit_or_say_nothing(command: str) -> None:
    runs, _ = read_script_runs("run.sh", f"{command}\npython3 -m verl.trainer.main_ppo trainer.nnodes=1\n", Context())
    assert "VRL239" not in [found.code for found in check_rules(runs[0])]
