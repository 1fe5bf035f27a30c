from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from verlcli.config.problems import Problem
from verlcli.config.verl.check import check_rules
from verlcli.config.verl.run import VerlRun

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
OLD = "8xV100-32G"
MIXED = "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype"
ROLLOUT = "actor_rollout_ref.rollout"
FUSED = (
    "actor_rollout_ref.model.use_fused_kernels=True",
    "actor_rollout_ref.model.fused_kernel_options.impl_backend=triton",
)


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code]


def unchecked(problems: list[Problem]) -> str:
    return "".join(problem.message for problem in problems if problem.unchecked)


def test_bf16_and_flash_attention_on_a_v100(problems_of: ProblemsOf) -> None:
    found = of("VRL235", problems_of(cluster=OLD))
    assert [(p.severity, p.path, p.line) for p in found] == [
        ("error", f"{ROLLOUT}.dtype", 1),
        ("warning", MIXED, 1),
        ("error", "actor_rollout_ref.model.override_config.attn_implementation", 1),
    ]
    text = " ".join(problem.sentence for problem in found)
    for part in (f"set {ROLLOUT}.dtype=half", f"set ++{MIXED}=fp16", "attn_implementation=sdpa"):
        assert part in text


def test_bf16_that_somebody_wrote_can_be_mended(problems_of: ProblemsOf) -> None:
    found = of("VRL235", problems_of(f"{ROLLOUT}.dtype=bfloat16", cluster=OLD))
    assert (found[0].line, found[0].fix and (found[0].fix.action, found[0].fix.to)) == (FIRST, ("set", "half"))


def test_a_v100_with_what_it_can_do(problems_of: ProblemsOf) -> None:
    overrides = (
        f"{ROLLOUT}.dtype=half",
        f"+{MIXED}=fp16",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    )
    assert of("VRL235", problems_of(*overrides, cluster=OLD)) == []


@pytest.mark.parametrize("cluster", ["8xA100-80G", "1x4090", "8xMI300X", None])
def test_cards_that_compute_bf16(problems_of: ProblemsOf, cluster: str | None) -> None:
    assert of("VRL235", problems_of(cluster=cluster)) == []


def test_fp8_on_an_a100(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL235", problems_of(f"{ROLLOUT}.quantization=fp8", cluster="8xA100-80G"))
    assert (problem.severity, problem.path, problem.line) == ("warning", f"{ROLLOUT}.quantization", FIRST)
    assert of("VRL235", problems_of(f"{ROLLOUT}.quantization=fp8", cluster="8xH100")) == []


def test_the_dtype_of_older_versions(problems_of: ProblemsOf) -> None:
    key = "actor_rollout_ref.actor.fsdp_config.dtype"
    half = (f"{ROLLOUT}.dtype=half", f"{key}=float16")
    attention = "+actor_rollout_ref.model.override_config.attn_implementation=sdpa"
    assert of("VRL235", problems_of(*half, attention, version="0.7.1", cluster=OLD)) == []
    assert of("VRL273", problems_of(*half, version="0.7.1")) == []


def test_a_dtype_that_fsdp_does_not_read(problems_of: ProblemsOf) -> None:
    key = "actor_rollout_ref.actor.fsdp_config.dtype"
    (problem,) = of("VRL273", problems_of(f"{key}=float16"))
    assert (problem.severity, problem.path, problem.line) == ("warning", key, FIRST)
    assert problem.suggestion == f"set ++{MIXED}=fp16"
    assert of("VRL273", problems_of(f"{key}=bfloat16")) == []
    assert of("VRL273", problems_of(f"{key}=float16", f"+{MIXED}=fp16")) == []


def test_the_fused_kernel_of_old_versions(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL236", problems_of(*FUSED, version="0.6.1"))
    assert (problem.severity, problem.path, problem.line) == ("error", FUSED[1][:-7], FIRST + 1)
    assert "such as 152064" in problem.message
    assert problem.fix is not None
    assert problem.fix.to == "torch"
    assert of("VRL236", problems_of(*FUSED)) == []


def test_the_fused_kernel_needs_the_model(problems_of: ProblemsOf) -> None:
    mine = "actor_rollout_ref.model.path=me/mine"
    assert of("VRL236", problems_of(*FUSED, mine)) == []
    assert "VRL236" in unchecked(problems_of(*FUSED, mine))
    assert of("VRL236", problems_of(mine)) == []


def test_the_fused_kernel_and_an_odd_hidden_size(problems_of: ProblemsOf, tmp_path: Path) -> None:
    sizes = {"hidden_size": 960, "num_hidden_layers": 2, "num_attention_heads": 15, "vocab_size": 49152}
    more = {"model_type": "llama", "intermediate_size": 64, "max_position_embeddings": 2048}
    (tmp_path / "config.json").write_text(json.dumps({**sizes, **more, "architectures": ["LlamaForCausalLM"]}))
    (problem,) = of("VRL236", problems_of(*FUSED, f"actor_rollout_ref.model.path={tmp_path}"))
    assert "steps of 128, the model has 960" in problem.message


DYNAMIC = ("actor_rollout_ref.actor.use_dynamic_bsz=True", "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=65536")


def test_logits_that_take_most_of_a_gpu(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL243", problems_of(*DYNAMIC, cluster="8xA100-80G"))
    assert (problem.severity, problem.path, problem.line) == ("warning", DYNAMIC[1][:-6], FIRST + 1)
    assert "65536 tokens × 152064 logits take 65 GiB of the 80 GiB of the" in problem.message


def test_logits_of_fixed_micro_batches(problems_of: ProblemsOf) -> None:
    many = ("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64", "data.max_response_length=1024")
    (problem,) = of("VRL243", problems_of(*many, cluster="8xA100-80G"))
    assert problem.path == many[0][:-3]
    assert "98304 tokens" in problem.message


@pytest.mark.parametrize(
    ("overrides", "cluster"),
    [
        ((DYNAMIC[0],), "8xA100-80G"),
        (DYNAMIC, None),
        ((*DYNAMIC, FUSED[0]), "8xA100-80G"),
        ((*DYNAMIC, "actor_rollout_ref.actor.entropy_from_logits_with_chunking=True"), "8xA100-80G"),
        (("actor_rollout_ref.model.path=me/mine",), "8xA100-80G"),
    ],
)
def test_logits_that_leave_room(problems_of: ProblemsOf, overrides: tuple[str, ...], cluster: str | None) -> None:
    assert of("VRL243", problems_of(*overrides, cluster=cluster)) == []


def test_logits_of_a_model_that_is_not_known(problems_of: ProblemsOf) -> None:
    found = problems_of(*DYNAMIC, "actor_rollout_ref.model.path=me/mine", cluster="8xA100-80G")
    assert of("VRL243", found) == []
    assert "VRL243" in unchecked(found)


def test_a_config_of_ours_takes_no_plus(run_of: Callable[..., VerlRun]) -> None:
    script = run_of(cluster="8xV100-32G")
    config = replace(script, source="config")
    advice = [
        next(p.suggestion or "" for p in check_rules(run) if "attn_implementation" in (p.suggestion or ""))
        for run in (script, config)
    ]
    assert advice[0].startswith("set ++actor_rollout_ref.model.override_config.attn_implementation=sdpa")
    assert advice[1].startswith("set verl.actor_rollout_ref.model.override_config.attn_implementation: sdpa")
