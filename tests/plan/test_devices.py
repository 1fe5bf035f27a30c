"""Devices: what is asked for, what the machine has, how many ranks that makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.errors import ConfigError, DoesNotFitError, MissingDependencyError
from verlcli.plan import Machine, Plan, require_devices, require_local
from verlcli.plan.devices import parse_device_map

PlanOf = Callable[..., Plan]


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("cuda:0", ("cuda:0",)),
        ("cuda:0,cuda:1", ("cuda:0", "cuda:1")),
        (" cuda:2, cuda:0 ", ("cuda:2", "cuda:0")),
        ("cuda:03", ("cuda:3",)),
        ("cpu", ("cpu",)),
    ],
)
def test_a_device_map_is_a_list_of_devices(text: str, devices: tuple[str, ...]) -> None:
    assert parse_device_map(text, "actor.device_map") == devices


@pytest.mark.parametrize(
    "text", ["", "cuda", "gpu:0", "cuda:0,", "cuda:0;cuda:1", "cuda:-1", "cpu,cuda:0", "0", "auto"]
)
def test_a_malformed_device_map_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a device map") as caught:
        parse_device_map(text, "actor.device_map")
    assert caught.value.where == "actor.device_map"
    assert '"cuda:0,cuda:1"' in str(caught.value.fix)


def test_a_device_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names cuda:1 twice"):
        parse_device_map("cuda:1,cuda:0,cuda:01", "critic.device_map")


def test_auto_is_what_the_machine_has(plan_of: PlanOf, cpu: Machine, a100: Machine) -> None:
    assert plan_of(cpu).device == "cpu"
    assert plan_of(a100).device == "cuda"
    assert plan_of(a100, "distributed.device=cpu").device == "cpu"


def test_a_cpu_build_of_torch_leaves_gpus_unused_and_says_so(plan_of: PlanOf, gpus_without_cuda_torch: Machine) -> None:
    plan = plan_of(gpus_without_cuda_torch)
    assert plan.device == "cpu"
    assert "the installed torch is a CPU build" in plan.notes[0].message


@pytest.mark.parametrize(
    "overrides", [("actor.device_map='cuda:0,cuda:1'",), ("distributed.gpus_per_node=8",), ("distributed.device=cuda",)]
)
def test_a_plan_for_another_machine_works_without_a_gpu(
    plan_of: PlanOf, cpu: Machine, overrides: tuple[str, ...]
) -> None:
    plan = plan_of(cpu, *overrides)
    assert plan.device == "cuda"
    with pytest.raises(MissingDependencyError, match="no NVIDIA GPU") as caught:
        require_devices(plan, cpu)
    assert caught.value.exit_code == 4
    assert "distributed.device: cpu" in str(caught.value.fix)


def test_the_documents_placement_gives_each_role_its_devices(plan_of: PlanOf, cpu: Machine) -> None:
    plan = plan_of(
        cpu,
        "algorithm.name=ppo",
        "actor.device_map='cuda:0,cuda:1'",
        "critic.device_map='cuda:2,cuda:3'",
        "reward_model.device_map='cuda:4'",
        "reward_model.path=judge",
    )
    devices = {role.role: role.devices for role in plan.placement}
    assert devices == {
        "actor": ("cuda:0", "cuda:1"),
        "rollout": ("cuda:0", "cuda:1"),
        "reward": ("cpu",),
        "reward_model": ("cuda:4",),
        "reference": ("cuda:0", "cuda:1"),
        "critic": ("cuda:2", "cuda:3"),
    }
    assert plan.batch.ranks == 2
    assert plan.batch.equation[0] == "2 devices = 2 ranks"


@pytest.mark.parametrize(
    ("overrides", "whose"),
    [(("critic.device_map=cuda:1",), "this machine has 1"), (("distributed.gpus_per_node=1",), "gpus_per_node has 1")],
)
def test_a_device_outside_the_node_does_not_fit(
    plan_of: PlanOf, a100: Machine, overrides: tuple[str, ...], whose: str
) -> None:
    with pytest.raises(DoesNotFitError, match=r"cuda:1 does not exist") as caught:
        plan_of(a100, "critic.device_map=cuda:1", *overrides)
    assert whose in caught.value.message
    assert caught.value.where == "critic.device_map"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (("distributed.device=cpu", "critic.device_map=cuda:0"), "critic.device_map"),
        (("distributed.device=cuda", "actor.device_map=cpu"), "actor.device_map"),
    ],
)
def test_contradicting_devices_are_refused(
    plan_of: PlanOf, a100: Machine, overrides: tuple[str, ...], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(a100, *overrides)
    assert caught.value.where == key


def test_an_actor_on_the_cpu_makes_a_cpu_run(plan_of: PlanOf, a100: Machine) -> None:
    assert plan_of(a100, "actor.device_map=cpu").device == "cpu"


def test_local_takes_one_gpu_of_many_and_says_so(plan_of: PlanOf, eight_a100: Machine) -> None:
    plan = plan_of(eight_a100)
    assert plan.batch.ranks == 1
    assert [note.message for note in plan.notes] == ["7 more GPUs here: the local backend trains on one"]
    require_local(plan)
    require_devices(plan, eight_a100)


@pytest.mark.parametrize(
    ("overrides", "ranks", "line"),
    [
        (("distributed.gpus_per_node=8",), 8, "8 devices = 8 ranks"),
        (("distributed.gpus_per_node=8", "distributed.nnodes=4"), 32, "4 nodes x 8 devices = 32 devices = 32 ranks"),
        (
            ("distributed.gpus_per_node=8", "distributed.nnodes=4", "actor.ulysses_sequence_parallel_size=4"),
            8,
            "4 nodes x 8 devices = 32 devices / 4 (sequence parallel) = 8 ranks",
        ),
    ],
)
def test_verl_ranks_are_nodes_times_gpus_over_sequence_parallel(
    plan_of: PlanOf, cpu: Machine, overrides: tuple[str, ...], ranks: int, line: str
) -> None:
    plan = plan_of(cpu, "backend=verl", *overrides)
    assert plan.batch.ranks == ranks
    assert plan.batch.equation[0] == line


def test_a_sequence_parallel_size_that_does_not_divide_lists_those_that_do(plan_of: PlanOf, cpu: Machine) -> None:
    with pytest.raises(DoesNotFitError, match="8 GPUs over a sequence-parallel size of 3 leaves 2") as caught:
        plan_of(
            cpu, "backend=verl", "distributed.gpus_per_node=8", "actor.ulysses_sequence_parallel_size=3", check=False
        )
    assert "1, 2, 4, 8" in str(caught.value.fix)


def test_verl_without_a_known_node_size_plans_one_gpu_and_says_so(plan_of: PlanOf, cpu: Machine) -> None:
    plan = plan_of(cpu, "backend=verl")
    assert plan.batch.ranks == 1
    assert plan.notes[0].path == "distributed.gpus_per_node"


@pytest.mark.parametrize(
    "overrides",
    [
        ("distributed.gpus_per_node=2",),
        ("actor.device_map='cuda:0,cuda:1'",),
        ("distributed.nnodes=2",),
        ("reference.device_map=cuda:1",),
    ],
)
def test_local_refuses_to_train_a_plan_of_several_devices(
    plan_of: PlanOf, eight_a100: Machine, overrides: tuple[str, ...]
) -> None:
    plan = plan_of(eight_a100, *overrides)
    with pytest.raises(DoesNotFitError, match="one process on one device") as caught:
        require_local(plan)
    assert "distributed.gpus_per_node" in str(caught.value.fix)


def test_dispatch_refuses_devices_that_this_machine_lacks(plan_of: PlanOf, a100: Machine) -> None:
    plan = plan_of(a100, "distributed.gpus_per_node=4")
    with pytest.raises(DoesNotFitError, match="needs cuda:1, cuda:2, cuda:3 and this machine has 1 GPU"):
        require_devices(plan, a100)


def test_dispatch_refuses_cuda_with_a_cpu_build_of_torch(plan_of: PlanOf, gpus_without_cuda_torch: Machine) -> None:
    plan = plan_of(gpus_without_cuda_torch, "distributed.device=cuda")
    with pytest.raises(MissingDependencyError, match="CPU build") as caught:
        require_devices(plan, gpus_without_cuda_torch)
    assert "pip install" in str(caught.value.fix)


def test_a_cpu_plan_needs_no_device(plan_of: PlanOf, cpu: Machine) -> None:
    plan = plan_of(cpu)
    require_devices(plan, cpu)
    require_local(plan)
