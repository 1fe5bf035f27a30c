"""Memory lent between phases, with a driver that fails where it is told to. On a GPU: test_graph_rollout.py."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from verlcli.engine.rollout.graph import lent, merged
from verlcli.engine.rollout.graph.pool import HEADROOM, Pool

OUT_OF_MEMORY = 2


class Result(int):
    @property
    def name(self) -> str:
        return f"error {int(self)}"


class Driver:
    """Counts handles of memory; `failing` has the errors of the next calls, by name."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=OUT_OF_MEMORY)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)
    CUmemLocation = CUmemAllocationProp = CUmemAccessDesc = SimpleNamespace

    def __init__(self) -> None:
        self.handles, self.failing, self.calls = 0, dict[str, list[int]](), list[str]()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            errors = self.failing.get(name, [])
            error = Result(errors.pop(0) if errors else 0)
            if not error:
                self.handles += {"cuMemCreate": 1, "cuMemRelease": -1}.get(name, 0)
            return (error, 2**21) if name.startswith(("cuMemGet", "cuMemAddressReserve", "cuMemCreate")) else (error,)

        return call


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    found = Driver()
    bindings = ModuleType("cuda.bindings")
    bindings.driver = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    monkeypatch.setattr(lent, "_can_map", lambda device: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: found.calls.append("empty_cache"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (2**30, 2**31))
    return found


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    changes: list[int] = []
    monkeypatch.setattr(lent, "count_mapped", changes.append)
    return changes


def test_memory_is_taken_once_given_back_once_and_counted(driver: Driver, counted: list[int]) -> None:
    memory = lent.LentMemory(10, torch.device("cuda:0"))
    assert memory.held == 0
    for _ in range(2):
        memory.take()
        assert memory.held == 2**21  # the driver's step
    assert driver.handles == 1
    for _ in range(2):
        memory.give_back()
    assert (memory.held, driver.handles, counted) == (0, 0, [2**21, -(2**21)])
    memory.take()
    del memory
    assert (driver.handles, sum(counted)) == (0, 0)
    assert driver.calls[-1] == "cuMemAddressFree"


@pytest.mark.parametrize("failing", ["cuMemMap", "cuMemSetAccess"])
def test_a_failure_leaves_nothing_behind(driver: Driver, counted: list[int], failing: str) -> None:
    memory = lent.LentMemory(10, torch.device("cuda:0"))
    driver.failing = {failing: [1]}
    with pytest.raises(RuntimeError, match=failing):
        memory.take()
    assert (memory.held, driver.handles, counted) == (0, 0, [])
    memory.take()
    assert memory.held == 2**21


def test_torchs_cache_is_emptied_before_memory_is_said_not_to_suffice(driver: Driver, counted: list[int]) -> None:
    memory = lent.LentMemory(10, torch.device("cuda:0"))
    driver.failing = {"cuMemCreate": [OUT_OF_MEMORY]}
    memory.take()
    assert "empty_cache" in driver.calls
    memory.give_back()
    driver.failing = {"cuMemCreate": [OUT_OF_MEMORY, OUT_OF_MEMORY]}
    with pytest.raises(torch.OutOfMemoryError, match="for generation"):
        memory.take()
    assert (memory.held, driver.handles) == (0, 0)


def test_adapters_that_found_no_memory_can_be_merged_later(
    driver: Driver, counted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Adapted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base_layer = torch.nn.Linear(4, 4)

        def get_delta_weight(self, adapter: str) -> None: ...

    adapters = merged.MergedAdapters(Adapted())
    driver.failing = {"cuMemCreate": [OUT_OF_MEMORY, OUT_OF_MEMORY]}
    with pytest.raises(torch.OutOfMemoryError):
        adapters.refresh()
    adapters.give_back()
    monkeypatch.setattr(lent, "_can_map", lambda device: False)
    monkeypatch.setattr(merged, "merged_weight", lambda layer, weight: weight + 1)
    adapters.refresh()
    assert adapters._weights[0].equal(adapters._layers[0].base_layer.weight + 1)


def test_a_cache_that_no_longer_fits_is_made_anew(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    pool, renewed, room = Pool(model, memory_fraction=0.9, host_share=0.0), list[int](), [1000]

    def fitting(rows: int, prompt_tokens: int, *, headroom: int = HEADROOM) -> int:
        return room[0] - 100 * headroom // HEADROOM

    monkeypatch.setattr(pool, "_fitting_tokens", fitting)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)

    def reserve(rows: int) -> int:
        return pool.reserve([10, 10], rows, 100, None, before_renewal=lambda: renewed.append(rows))

    assert reserve(8) == 8
    assert reserve(8) == 8  # the same cache
    assert renewed == [8]
    room[0] = pool.idle_place + 60  # a little less than it was sized for
    assert reserve(8) == 8
    assert renewed == [8]
    room[0] = 500
    assert reserve(8) == 3
    assert pool.idle_place <= 400
    assert len(renewed) > 1
