"""Dtypes: what each device gets, with the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.plan import Machine, Plan

PlanOf = Callable[..., Plan]


def actor(plan: Plan) -> tuple[str, str]:
    role = plan.role("actor")
    assert role is not None
    return role.dtype, role.reason


@pytest.mark.parametrize(
    ("machine", "backend", "dtype", "reason"),
    [
        ("cpu", "local", "fp32", "bf16 is emulated on this CPU"),
        ("cpu_with_bf16", "local", "fp32", "this CPU has bf16 instructions too"),
        ("a100", "local", "bf16", "A100-SXM4-80GB computes bf16 natively"),
        ("a100", "verl", "bf16", "A100-SXM4-80GB computes bf16 natively"),
        ("v100", "verl", "fp16", "V100-SXM2-16GB has fp16 units and no bf16"),
        ("v100", "local", "fp16", "V100-SXM2-16GB has fp16 units and no bf16"),
        ("rtx_4090", "verl", "fp16", "which computes bf16 natively too"),
        ("rtx_4090", "local", "fp16", "which computes bf16 natively too"),
    ],
)
def test_auto_picks_what_the_device_computes(
    plan_of: PlanOf, request: pytest.FixtureRequest, machine: str, backend: str, dtype: str, reason: str
) -> None:
    chosen, why = actor(plan_of(request.getfixturevalue(machine), f"backend={backend}"))
    assert chosen == dtype
    assert reason in why


@pytest.mark.parametrize(
    ("machine", "backend", "asked", "dtype", "warning"),
    [
        ("v100", "verl", "bf16", "bf16", "no bf16 units and emulates it slowly: set fp16"),
        ("v100", "local", "bf16", "bf16", "no bf16 units and emulates it slowly: set fp16"),
        ("cpu", "local", "bf16", "bf16", "emulated on this CPU"),
        ("cpu", "local", "fp16", "fp32", "no use on a CPU"),
    ],
)
def test_a_dtype_that_costs_or_cannot_be_had_is_warned_of(
    plan_of: PlanOf, request: pytest.FixtureRequest, machine: str, backend: str, asked: str, dtype: str, warning: str
) -> None:
    plan = plan_of(request.getfixturevalue(machine), f"backend={backend}", f"model.dtype={asked}")
    assert actor(plan)[0] == dtype
    assert any(note.severity == "warning" and warning in note.message for note in plan.notes)


@pytest.mark.parametrize(
    ("machine", "asked"),
    [
        ("cpu", "fp32"),
        ("a100", "fp32"),
        ("a100", "bf16"),
        ("a100", "fp16"),
        ("v100", "fp32"),
        ("v100", "fp16"),
        ("cpu_with_bf16", "bf16"),
    ],
)
def test_a_dtype_that_the_device_has_is_taken_without_a_word(
    plan_of: PlanOf, request: pytest.FixtureRequest, machine: str, asked: str
) -> None:
    plan = plan_of(request.getfixturevalue(machine), f"model.dtype={asked}")
    assert actor(plan)[0] == asked
    assert plan.notes == ()


def test_a_roles_own_dtype_wins_over_the_models(plan_of: PlanOf, a100: Machine) -> None:
    plan = plan_of(a100, "model.dtype=bf16", "reward_model.path=judge", "reward_model.dtype=fp16", "actor.dtype=fp32")
    dtypes = {role.role: role.dtype for role in plan.placement}
    assert (dtypes["actor"], dtypes["rollout"], dtypes["reward_model"]) == ("fp32", "fp32", "fp16")


def test_the_reference_follows_the_actor_so_that_the_kl_compares_like_with_like(plan_of: PlanOf, a100: Machine) -> None:
    reference = plan_of(a100, "actor.dtype=fp32", "model.dtype=bf16").role("reference")
    assert reference is not None
    assert reference.dtype == "fp32"


def test_the_weakest_card_decides(plan_of: PlanOf, a100: Machine, v100: Machine) -> None:
    from dataclasses import replace

    mixed = replace(a100, gpus=a100.gpus + v100.gpus)
    assert actor(plan_of(mixed, "backend=verl"))[0] == "fp16"


def test_without_a_gpu_to_ask_bf16_is_planned_and_said(plan_of: PlanOf, cpu: Machine) -> None:
    dtype, reason = actor(plan_of(cpu, "distributed.gpus_per_node=8"))
    assert dtype == "bf16"
    assert "no GPU here to ask" in reason
