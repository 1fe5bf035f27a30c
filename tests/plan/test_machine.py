"""Reading this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from verlcli.plan.machine import Gpu, this_machine, visible_indices

UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-bb33"]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        (" 2 , 0 ", [2, 0]),
        ("0,7,1", [0]),
        ("0,NoDevFiles", [0]),
        ("GPU-ab", [1]),
        ("GPU-bb33,0", [2, 0]),
        ("GPU-a", []),
        ("GPU-zz", []),
    ],
)
def test_cuda_visible_devices_selects_and_orders_as_cuda_does(visible: str | None, indices: list[int]) -> None:
    assert visible_indices(visible, UUIDS) == indices


@pytest.mark.parametrize(("capability", "bf16"), [((7, 0), False), ((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_bf16_comes_with_ampere(capability: tuple[int, int], bf16: bool) -> None:
    assert Gpu("card", 1, capability).bf16 is bf16


def test_this_machine_has_the_cores_that_this_process_may_use() -> None:
    expected = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert this_machine().cpu_cores == expected


def test_hidden_gpus_are_not_there() -> None:
    assert this_machine({"CUDA_VISIBLE_DEVICES": ""}).gpus == ()


class TwoCards:
    """NVML with a V100 and an H100, whose older bindings answer in bytes."""

    names = (b"Tesla V100", "NVIDIA H100")

    def __getattr__(self, name: str) -> Any:
        getattr(pynvml, name)  # the real binding has it
        return {
            "NVMLError": pynvml.NVMLError,
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: UUIDS[handle],
            "nvmlDeviceGetName": lambda handle: self.names[handle],
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=(16, 80)[handle] * 2**30),
            "nvmlDeviceGetCudaComputeCapability": lambda handle: ((7, 0), (9, 0))[handle],
        }[name]


def test_gpus_come_in_the_order_that_cuda_numbers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", TwoCards())
    v100, h100 = Gpu("Tesla V100", 16 * 2**30, (7, 0)), Gpu("NVIDIA H100", 80 * 2**30, (9, 0))
    assert this_machine({}).gpus == (v100, h100)
    assert this_machine({"CUDA_VISIBLE_DEVICES": "1,0"}).gpus == (h100, v100)


def test_reading_the_machine_loads_no_torch() -> None:
    code = "import sys; from verlcli.plan import this_machine; this_machine(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
