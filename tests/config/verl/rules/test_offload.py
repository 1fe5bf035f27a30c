from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.model"
FSDP, FSDP2 = f"{ACTOR}.fsdp_config", f"{ACTOR}.strategy=fsdp2"
POLICY, PARAM, KEPT = f"{FSDP}.offload_policy", f"{FSDP}.param_offload", f"{FSDP}.reshard_after_forward"
ACTIVATIONS, DTYPE = f"{MODEL}.enable_activation_offload", f"{FSDP}.model_dtype"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def test_a_policy_that_fsdp1_does_not_read(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL218", problems_of(f"{POLICY}=True"))
    assert (found.severity, found.path, found.line) == ("warning", POLICY, FIRST)
    assert f"is read by fsdp2 only, and {ACTOR}.strategy='fsdp' (verl's default)" in found.message
    assert found.suggestion == f"set {FSDP2}, or use param_offload and optimizer_offload"


def test_offload_beside_the_policy(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL218", problems_of(FSDP2, f"{POLICY}=True", f"{PARAM}=True"))
    assert (found.severity, found.path, found.line) == ("note", PARAM, FIRST + 2)
    assert "does nothing" in found.message
    assert found.fix is not None
    assert (found.fix.action, found.fix.key) == ("remove", PARAM)


def test_a_critic_has_its_own(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL218", problems_of("critic.enable=True", "critic.fsdp.offload_policy=True"))
    assert found.path == "critic.fsdp.offload_policy"
    assert of("VRL218", problems_of("critic.fsdp.offload_policy=True")) == []
    (found,) = of(
        "VRL218", problems_of("critic.enable=True", "critic.model.fsdp_config.offload_policy=True", version="0.7.1")
    )
    assert found.path == "critic.model.fsdp_config.offload_policy"


@pytest.mark.parametrize("overrides", [(FSDP2, f"{POLICY}=True"), (f"{PARAM}=True",), (f"{POLICY}=False",)])
def test_offload_that_is_read(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL218", problems_of(*overrides)) == []


def test_offloaded_but_kept(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL219", problems_of(f"{KEPT}=False", f"{PARAM}=True"))
    assert (found.severity, found.path, found.line) == ("warning", KEPT, FIRST)
    assert found.suggestion == f"set {KEPT}=True, or {PARAM}=False"
    assert of("VRL219", problems_of(f"{KEPT}=False")) == []
    assert of("VRL219", problems_of(f"{PARAM}=True")) == []


def test_activations_of_other_engines(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL219", problems_of(f"{ACTIVATIONS}=True", engine="megatron"))
    assert (found.severity, found.line) == ("warning", FIRST)
    assert "Megatron does not read it" in found.message
    (found,) = of("VRL219", problems_of(f"{ACTIVATIONS}=True", f"{ACTOR}.strategy=fsdp_turbo"))
    assert found.severity == "error"
    assert found.suggestion == f"set {ACTIVATIONS}=False"
    assert of("VRL219", problems_of(f"{ACTIVATIONS}=True")) == []
    assert of("VRL219", problems_of(f"{ACTIVATIONS}=True", FSDP2)) == []


@pytest.mark.parametrize("dtype", ["bf16", "bfloat16"])
def test_weights_without_an_fp32_copy(problems_of: ProblemsOf, dtype: str) -> None:
    (found,) = of("VRL221", problems_of(f"{DTYPE}={dtype}"))
    assert (found.severity, found.path, found.line) == ("note", DTYPE, FIRST)
    assert "keeps no fp32 copy" in found.message
    assert of("VRL221", problems_of(f"{DTYPE}={dtype}", f"{MODEL}.lora_rank=32")) == []


@pytest.mark.parametrize("overrides", [(), (f"{DTYPE}=fp32",), (f"{FSDP}.dtype=bfloat16",)])
def test_weights_in_fp32(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL221", problems_of(*overrides)) == []
