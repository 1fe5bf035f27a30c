"""GPU probes grade readings of the driver; the readings are data, so no GPU is needed here."""

from __future__ import annotations

import pytest

from verlcli.diagnose import gpu
from verlcli.diagnose.nvml import DriverReading, GpuReading, read_driver

GIB = gpu.GIB
FREE = GpuReading(0, "NVIDIA H200", 141 * GIB, GIB, (), "PCIe 5.0 x16")
BUSY = GpuReading(1, "NVIDIA H200", 141 * GIB, 80 * GIB, (4242, 4243), None)
HIDDEN = GpuReading(2, "NVIDIA H200", 141 * GIB, 80 * GIB, (), None)
DRIVER = DriverReading("580.65", (13, 0), (FREE, BUSY, HIDDEN))
NO_DRIVER = DriverReading(absent="no NVIDIA driver")


@pytest.mark.parametrize(
    ("reading", "installed", "build", "status", "words"),
    [
        pytest.param(DRIVER, True, "13.0", "PASS", "built for CUDA 13.0", id="same-version"),
        pytest.param(DRIVER, True, "12.6", "PASS", "built for CUDA 12.6", id="older-build"),
        pytest.param(DriverReading("535", (12, 2), (FREE,)), True, "12.6", "PASS", "12.2", id="same-major"),
        pytest.param(DriverReading("535", (12, 2), (FREE,)), True, "13.0", "FAIL", "up to 12.2", id="driver-too-old"),
        pytest.param(DRIVER, True, None, "WARN", "CPU build", id="cpu-build-beside-a-gpu"),
        pytest.param(DRIVER, False, None, "SKIP", "not installed", id="no-torch"),
        pytest.param(NO_DRIVER, True, None, "SKIP", "torch is a CPU build", id="no-driver"),
        pytest.param(NO_DRIVER, True, "12.6", "SKIP", "built for CUDA 12.6", id="cuda-build-without-driver"),
    ],
)
def test_cuda_build_is_compared_with_the_driver(
    reading: DriverReading, installed: bool, build: str | None, status: str, words: str
) -> None:
    finding = gpu.probe_cuda(reading, installed, build)
    assert finding.status == status
    assert words in finding.evidence
    assert (finding.fix is not None) == (status in ("WARN", "FAIL"))


def test_each_gpu_has_a_finding_with_its_memory_and_link() -> None:
    free, busy, hidden = gpu.probe_gpus(DRIVER)
    assert free.status == "PASS"
    assert free.evidence == "NVIDIA H200, 141.0 GiB, 1.0 GiB in use, PCIe 5.0 x16"
    assert (busy.id, busy.status) == ("gpu:1", "WARN")
    assert "4242, 4243" in busy.evidence
    assert "ps -fp 4242,4243" in (busy.fix or "")
    assert hidden.status == "WARN"


def test_no_gpu_is_one_skip_with_the_reason() -> None:
    (finding,) = gpu.probe_gpus(NO_DRIVER)
    assert (finding.status, finding.evidence) == ("SKIP", "no NVIDIA driver")


def test_reading_this_machine_gives_gpus_or_a_reason() -> None:
    reading = read_driver()
    assert bool(reading.gpus) != bool(reading.absent)
