"""Engines: chosen, fallen back by name, refused with the choices."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import pytest

from verlcli.errors import ConfigError
from verlcli.plan import Machine, Plan, RolePlan
from verlcli.plan.engines import rollout_engine

PlanOf = Callable[..., Plan]


def role(plan: Plan, name: str) -> RolePlan:
    found = plan.role(name)
    assert found is not None
    return found


def test_local_rolls_out_with_graph_and_trains_with_torch(plan_of: PlanOf, cpu: Machine) -> None:
    plan = plan_of(cpu, "algorithm.name=ppo")
    assert {r.role: r.engine for r in plan.placement} == {
        "actor": "torch",
        "rollout": "graph",
        "reward": "python",
        "reference": "hf",
        "critic": "torch",
    }
    assert plan.notes == ()


def test_verl_has_its_own_defaults(plan_of: PlanOf, cpu: Machine) -> None:
    plan = plan_of(cpu, "backend=verl", "distributed.gpus_per_node=8", "algorithm.name=ppo")
    assert [role(plan, name).engine for name in ("actor", "rollout", "critic")] == ["fsdp", "vllm", "fsdp"]


@pytest.mark.parametrize("key", ["rollout.name", "actor.rollout_engine"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_rollout_engine_that_is_not_to_be_had_falls_back_to_graph_by_name(
    plan_of: PlanOf, cpu: Machine, key: str, engine: str
) -> None:
    plan = plan_of(cpu, f"{key}={engine}")
    (note,) = plan.notes
    assert role(plan, "rollout").engine == "graph"
    assert (note.severity, note.path) == ("warning", key)
    assert engine in note.message
    assert note.message.endswith("falls back to graph")  # the factor was measured on a GPU


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vllm is installed")
def test_an_absent_vllm_is_named_with_its_install_line() -> None:
    (note,) = rollout_engine("vllm", "rollout.name", "local", "cuda").notes
    assert note.message.endswith(
        "falls back to graph, expect about 6 times its tokens/s at 0.5B parameters and the same at 7B"
    )
    assert "vllm >= 0.24 is not installed (pip install 'verlcli[vllm]')" in note.message


@pytest.mark.parametrize("engine", ["vllm", "sglang", "fsdp"])
def test_a_judge_on_an_engine_that_local_lacks_falls_back_to_hf(plan_of: PlanOf, cpu: Machine, engine: str) -> None:
    plan = plan_of(cpu, "reward_model.path=judge", f"reward_model.engine={engine}", "reward.function=[]")
    assert role(plan, "reward_model").engine == "hf"
    assert [(note.severity, note.path) for note in plan.notes] == [("warning", "reward_model.engine")]


@pytest.mark.parametrize("key", ["rollout.name", "actor.rollout_engine"])
def test_verl_takes_the_rollout_engine_asked_for(plan_of: PlanOf, cpu: Machine, key: str) -> None:
    assert role(plan_of(cpu, "backend=verl", f"{key}=sglang"), "rollout").engine == "sglang"


@pytest.mark.parametrize("engine", ["fsdp", "deepspeed"])
def test_a_sharding_engine_becomes_torch_in_one_process(plan_of: PlanOf, cpu: Machine, engine: str) -> None:
    plan = plan_of(cpu, f"actor.training_engine={engine}")
    assert role(plan, "actor").engine == "torch"
    assert [note.path for note in plan.notes] == ["actor.training_engine"]


@pytest.mark.parametrize(
    "overrides",
    [
        ("actor.training_engine=mcore",),
        ("algorithm.name=ppo", "critic.training_engine=mcore"),
        ("reference.engine=mcore",),
    ],
)
def test_mcore_exists_through_verl_only(plan_of: PlanOf, cpu: Machine, overrides: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="through the verl backend only") as caught:
        plan_of(cpu, *overrides)
    assert caught.value.where == overrides[-1].split("=")[0]
    assert "backend: verl" in str(caught.value.fix)
    plan_of(cpu, "backend=verl", *overrides)


def test_an_engine_that_verl_lacks_lists_those_it_has(plan_of: PlanOf, cpu: Machine) -> None:
    with pytest.raises(ConfigError, match="'graph' does not exist on the verl backend") as caught:
        plan_of(cpu, "backend=verl", "rollout.name=graph")
    assert "vllm, sglang, hf" in str(caught.value.fix)


def test_engines_that_local_has_are_taken_as_asked(plan_of: PlanOf, cpu: Machine) -> None:
    plan = plan_of(cpu, "rollout.name=hf", "actor.training_engine=torch", "reference.engine=hf")
    assert [role(plan, name).engine for name in ("actor", "rollout", "reference")] == ["torch", "hf", "hf"]
    assert plan.notes == ()


@pytest.mark.parametrize("backend", ["local", "verl"])
def test_an_unknown_engine_lists_the_choices(backend: str) -> None:
    with pytest.raises(ConfigError) as caught:
        rollout_engine("vlm", "rollout.name", backend, "cpu")
    assert "vllm" in str(caught.value.fix)
