"""Configs and machines for the planner's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config import Loaded, load_config
from verlcli.config.build import build_config
from verlcli.plan import Gpu, Machine, Plan, make_plan

A100 = Gpu("NVIDIA A100-SXM4-80GB", 80 * 2**30, (8, 0))
V100 = Gpu("Tesla V100-SXM2-16GB", 16 * 2**30, (7, 0))
RTX_4090 = Gpu("NVIDIA GeForce RTX 4090", 24 * 2**30, (8, 9))


def machine_of(*gpus: Gpu, cpu_bf16: bool = False, torch_cuda: bool = True) -> Machine:
    return Machine(gpus, cpu_cores=8, cpu_bf16=cpu_bf16, torch_cuda=torch_cuda)


@pytest.fixture
def cpu() -> Machine:
    return machine_of()


@pytest.fixture
def a100() -> Machine:
    return machine_of(A100)


@pytest.fixture
def v100() -> Machine:
    return machine_of(V100)


@pytest.fixture
def rtx_4090() -> Machine:
    return machine_of(RTX_4090)


@pytest.fixture
def eight_a100() -> Machine:
    return machine_of(*[A100] * 8)


@pytest.fixture
def gpus_without_cuda_torch() -> Machine:
    return machine_of(A100, A100, torch_cuda=False)


@pytest.fixture
def cpu_with_bf16() -> Machine:
    return machine_of(cpu_bf16=True)


@pytest.fixture
def load() -> Callable[..., Loaded]:
    """`load("rollout.n=4", ...)`: the schema's defaults with overrides."""

    def build(*overrides: str) -> Loaded:
        return load_config([], ["model.path=tiny", "data.source=arithmetic", *overrides], env={})

    return build


@pytest.fixture
def plan_of(load: Callable[..., Loaded]) -> Callable[..., Plan]:
    """`plan_of(machine, "rollout.n=4", ...)`: the plan of such a config on a machine.

    With `check=False` also of one that the checks of a verl launch refuse first.
    """

    def build(machine: Machine, *overrides: str, check: bool = True) -> Plan:
        loaded = load(*overrides)
        config = loaded.config if check else build_config(loaded.values)
        return make_plan(config, name="test", machine=machine, argv=["test.yaml"], origins=loaded.origins)

    return build
