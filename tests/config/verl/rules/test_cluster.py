from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Place, Problem
from verlcli.config.verl.run import Variable

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

GPUS, NODES, CPUS = "trainer.n_gpus_per_node", "trainer.nnodes", "ray_kwargs.ray_init.num_cpus"
POOL = "reward.reward_model"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


def asked(**directives: str) -> dict[str, Variable]:
    names = {name.replace("_", "-"): value for name, value in directives.items()}
    return {name: Variable(name, value, Place("run.sh", 1, 1)) for name, value in names.items()}


@pytest.mark.parametrize(
    ("cpus", "version", "needed"), [(8, "0.9.1", 24), (23, "0.9.1", 24), (23, "0.7.1", 24), (7, "0.6.1", 8)]
)
def test_too_few_cpus_for_ray(problems_of: ProblemsOf, cpus: int, version: str, needed: int) -> None:
    key = CPUS if version != "0.5.0" else "ray_init.num_cpus"
    (found,) = of("VRL222", problems_of(f"{key}={cpus}", version=version))
    assert (found.severity, found.path, found.line) == ("error", key, FIRST)
    assert f"8 GPUs = {needed} a node, and {key}={cpus}: Ray waits forever" in found.message
    assert f"give it {needed + 2} or more" in (found.suggestion or "")


def test_fewer_gpus_would_do(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL222", problems_of(f"{CPUS}=8"))
    assert (found.suggestion or "").endswith(f"or set {GPUS}=2")
    (found,) = of("VRL222", problems_of(f"{CPUS}=2", f"{GPUS}=1"))
    assert found.suggestion == "give it 5 or more"


def test_cpus_of_the_cluster(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL222", problems_of(cluster="8xA100-80G,cpus=16"))
    assert "the cluster's nodes have 16" in found.message
    assert of("VRL222", problems_of(cluster="8xA100-80G,cpus=26")) == []
    assert of("VRL222", problems_of(f"{CPUS}=64", cluster="8xA100-80G,cpus=16")) == []


def test_cpus_of_a_slurm_job(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL222", problems_of(directives=asked(cpus_per_task="16")))
    assert "#SBATCH --cpus-per-task=16" in found.message
    assert of("VRL222", problems_of(directives=asked(cpus_per_task="64"))) == []
    (found,) = of("VRL222", problems_of(directives=asked(cpus_per_gpu="2", gres="gpu:8,nvme:1")))
    assert "#SBATCH --cpus-per-gpu=2 gives 16" in found.message
    assert of("VRL222", problems_of(directives=asked(cpus_per_gpu="4", gres="gpu:8"))) == []
    several = asked(cpus_per_task="16", ntasks_per_node="8")
    assert of("VRL222", problems_of(directives=several)) == []


def test_cpus_nobody_told(problems_of: ProblemsOf) -> None:
    assert "needs the cluster" in unchecked("VRL222", problems_of())[0]
    assert "add cpus=64 to --cluster" in unchecked("VRL222", problems_of(cluster="8xA100-80G"))[0]
    assert unchecked("VRL222", problems_of(f"{CPUS}=64")) == []


def test_default_of_eight_on_a_small_machine(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL223", problems_of(cluster="2xRTX4090,cpus=64"))
    assert (found.severity, found.path, found.line) == ("error", GPUS, 1)
    assert f"{GPUS}=8 (verl's default), and the cluster's nodes have 2" in found.message
    assert found.suggestion == "set it to 2"


def test_more_nodes_than_there_are(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL223", problems_of(f"{NODES}=4", cluster="2x8xA100-80G"))
    assert (found.path, found.line) == (NODES, FIRST)
    assert f"{NODES}=4, and the cluster has 2" in found.message


def test_no_gpu_at_all(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL223", problems_of(cluster="none"))
    assert found.suggestion == "name a cluster with GPUs"


def test_groups_add_up(problems_of: ProblemsOf) -> None:
    pool = (f"{POOL}.enable_resource_pool=True", f"{POOL}.nnodes=1", f"{POOL}.n_gpus_per_node=8")
    (found,) = of("VRL223", problems_of(*pool, cluster="8xA100-80G"))
    assert "asks for 1 × 8 + 1 × 8 = 16 GPUs, and the cluster has 8" in found.message
    assert found.line == FIRST + 1
    assert of("VRL223", problems_of(*pool, cluster="2x8xA100-80G")) == []


def test_rollout_has_its_own_group(problems_of: ProblemsOf) -> None:
    overrides = ("rollout.nnodes=1", "rollout.n_gpus_per_node=4", f"{GPUS}=4")
    assert of("VRL223", problems_of(*overrides, entry="fully_async", cluster="8xA100-80G")) == []
    (found,) = of("VRL223", problems_of(*overrides, entry="fully_async", cluster="6xA100-80G"))
    assert "1 × 4 + 1 × 4 = 8 GPUs, and the cluster has 6" in found.message


@pytest.mark.parametrize("overrides", [(), (f"{GPUS}=4",), (f"{GPUS}=8", f"{NODES}=2")])
def test_clusters_that_do(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL223", problems_of(*overrides, cluster="2x8xA100-80G")) == []


def test_clusters_nobody_named(problems_of: ProblemsOf) -> None:
    assert unchecked("VRL223", problems_of()) != []


def test_no_cpu_beside_the_workers(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL222", problems_of("ray_kwargs.ray_init.num_cpus=24"))
    assert (found.severity, found.path, found.line) == ("warning", "ray_kwargs.ray_init.num_cpus", FIRST)
    assert "reserve all 24 CPUs" in found.message
    assert found.suggestion == "give it 26 or more"
    assert of("VRL222", problems_of("ray_kwargs.ray_init.num_cpus=26")) == []


def test_npus_are_no_cards_of_a_cluster(problems_of: ProblemsOf) -> None:
    npu, offload = "trainer.device=npu", "actor_rollout_ref.actor.fsdp_config.param_offload=True"
    assert [problem.message for problem in problems_of(npu, offload) if "cluster" in problem.message] == []
    on_old_cards = problems_of(npu, cluster="4xV100-32G,cpus=4,ram=8G")
    assert {problem.code for problem in on_old_cards} & {"VRL214", "VRL220", "VRL222", "VRL223", "VRL235"} == set()


def test_what_needs_the_same_fact_is_one_note(problems_of: ProblemsOf) -> None:
    notes = [problem for problem in problems_of() if problem.unchecked]
    assert [(problem.code, problem.message.partition(": add")[0]) for problem in notes] == [
        ("VRL211", "not checked: needs the cluster")
    ]
    assert notes[0].message.endswith("(VRL211, VRL214, VRL222, VRL223)")
