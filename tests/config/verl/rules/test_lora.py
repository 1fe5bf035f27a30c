from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10
LORA = ("actor_rollout_ref.model.lora_rank=32", "actor_rollout_ref.rollout.layered_summon=True")
ONE_GPU = "trainer.n_gpus_per_node=1"
ON_CPU = ("actor_rollout_ref.actor.strategy=fsdp2", "actor_rollout_ref.actor.fsdp_config.offload_policy=True")


def of(code: str, problems: list[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.code == code]


def test_layers_of_a_single_rank(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL245", problems_of(*LORA, ONE_GPU))
    assert (problem.severity, problem.path) == ("warning", "actor_rollout_ref.rollout.layered_summon")
    assert problem.line == FIRST + 1
    assert "on one GPU" in problem.message
    assert problem.suggestion == "set actor_rollout_ref.rollout.layered_summon=False; it saves nothing on one GPU"
    assert problem.fix is not None
    assert (problem.fix.action, problem.fix.to) == ("set", False)
    assert {other.path for other in problem.related} == {ONE_GPU[:-2], LORA[0][:-3]}


@pytest.mark.parametrize(
    "overrides",
    [
        (*LORA,),  # eight GPUs
        (LORA[1], ONE_GPU),  # no adapter
        (LORA[0], ONE_GPU),
        (*LORA, ONE_GPU, "actor_rollout_ref.model.lora.merge=True"),
        (*LORA, ONE_GPU, "actor_rollout_ref.actor.strategy=fsdp2"),
    ],
)
def test_layers_that_can_be_gathered(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL245", problems_of(*overrides)) == []


def test_layers_that_stay_on_the_cpu(problems_of: ProblemsOf) -> None:
    (problem,) = of("VRL246", problems_of(*LORA, *ON_CPU))
    assert (problem.severity, problem.line) == ("error", FIRST + 1)
    assert "offload_policy=true keeps them on the CPU" in problem.message
    assert problem.suggestion is not None
    assert "layered_summon=False" in problem.suggestion


@pytest.mark.parametrize("overrides", [(*LORA, ON_CPU[0]), (*ON_CPU, LORA[1]), (*ON_CPU, LORA[0])])
def test_layers_on_the_gpu(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL246", problems_of(*overrides)) == []


def test_an_adapter_of_a_file_counts_with_its_rank_alone(problems_of: ProblemsOf) -> None:
    path = "actor_rollout_ref.model.lora_adapter_path=/a"
    assert [problem.line for problem in of("VRL245", problems_of(path, *LORA, ONE_GPU))] == [FIRST + 2]
    assert of("VRL245", problems_of(path, LORA[1], ONE_GPU)) == []


def test_older_versions_gather_another_way(problems_of: ProblemsOf) -> None:
    assert of("VRL245", problems_of(*LORA, ONE_GPU, version="0.8.0")) == []
