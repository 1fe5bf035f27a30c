from __future__ import annotations

import pytest

from verlcli.errors import ConfigError
from verlcli.facts import GPUS, GpuModel, find_gpu


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A100-80G", "A100-80G"),
        ("a100_80gb", "A100-80G"),
        ("A100-80", "A100-80G"),
        ("NVIDIA A100-SXM4-80GB", "A100-80G"),
        ("NVIDIA A100-SXM4-40GB", "A100-40G"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80G"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40G"),
        ("Tesla V100-SXM2-32GB", "V100-32G"),
        ("Tesla T4", "T4"),
        ("RTX A6000", "A6000"),
        ("h100", "H100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("H200-141GB", "H200"),
        ("H20 96 GiB", "H20-96G"),
        ("B200-192GB", "B200"),
        ("4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA L40S", "L40S"),
        ("L40S PCIe", "L40S"),
        ("AMD Instinct MI300X OAM", "MI300X"),
    ],
)
def test_usual_spellings_are_understood(text: str, name: str) -> None:
    assert find_gpu(text).name == name


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_a_name_finds_its_own_row_in_any_case(gpu: GpuModel) -> None:
    assert find_gpu(gpu.name) is gpu
    assert find_gpu(f"  {gpu.name.lower()} ") is gpu


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("A100", "this GPU has 40 GB or 80 GB", "write A100-40G or A100-80G"),
        ("H20", "96 GB or 141 GB", "write H20-96G or H20-141G"),
        ("A100-64G", "not 64", "write A100-40G or A100-80G"),
        ("H100-94G", "this GPU has 80 GB, not 94", "write H100"),
        ("H1000", "no GPU is known as 'H1000'", "did you mean H100"),
        ("GH200", "no GPU is known as 'GH200'", "H200"),
        ("4090D", "no GPU is known as '4090D'", "did you mean RTX 4090?"),
        ("A10G", "no GPU is known", "did you mean A10"),
        ("NVIDIA A800 80GB PCIe", "no GPU is known", "did you mean A800?"),
        ("H100 NVL", "no GPU is known", "did you mean H100"),
        ("A100-80G-40G", "no GPU is known", "A100-40G or A100-80G"),
        ("RTX 6000 Ada", "no GPU is known", "known: V100-16G"),
        ("", "no GPU is known as ''", "known: V100-16G"),
        ("NVIDIA", "no GPU is known", "known:"),
        ("A100-" + "8" * 5000, "no GPU is known", "A100"),
    ],
)
def test_what_is_not_one_gpu_is_refused_with_what_to_write(text: str, message: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_gpu(text)
    assert message in caught.value.message
    assert fix in str(caught.value.fix)


@pytest.mark.parametrize(
    ("name", "bf16", "fp8"),
    [
        ("V100-32G", False, False),
        ("T4", False, False),
        ("A100-80G", True, False),
        ("RTX 3090", True, False),
        ("L4", True, True),
        ("RTX 4090", True, True),
        ("H100", True, True),
        ("B200", True, True),
        ("MI300X", True, True),
    ],
)
def test_what_a_generation_supports(name: str, bf16: bool, fp8: bool) -> None:
    gpu = find_gpu(name)
    assert (gpu.supports_bf16, gpu.supports_flash_attention, gpu.supports_fp8) == (bf16, bf16, fp8)
    assert ("bf16" in gpu.tflops, "fp8" in gpu.tflops) == (bf16, fp8)


# Peaks that verl's flops_counter.py uses for its MFU, in TFLOP/s.
@pytest.mark.parametrize(
    ("name", "bf16"),
    [
        ("GB200", 2500),
        ("B200", 2250),
        ("MI300X", 1307),
        ("H100", 989),
        ("H800", 989),
        ("H200", 989),
        ("A100-80G", 312),
        ("A800", 312),
        ("L40S", 362.05),
        ("L40", 181.05),
        ("A40", 149.7),
        ("L20", 119.5),
        ("H20-96G", 148),
    ],
)
def test_bf16_peaks_agree_with_an_independent_table(name: str, bf16: float) -> None:
    assert find_gpu(name).tflops["bf16"] == pytest.approx(bf16, rel=0.001)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_figures_of_one_row_fit_each_other(gpu: GpuModel) -> None:
    assert 0.9 * gpu.nominal_gb <= gpu.memory_gib <= 1.03 * gpu.nominal_gb
    assert gpu.tflops["fp16"] == gpu.tflops.get("bf16", gpu.tflops["fp16"])
    # On one chip each narrower format is at least as fast, and the steps are factors of about two.
    assert gpu.tflops["fp32"] <= gpu.tflops.get("tf32", gpu.tflops["fp16"]) <= gpu.tflops["fp16"]
    assert 1.9 <= gpu.tflops.get("fp8", 2 * gpu.tflops["fp16"]) / gpu.tflops["fp16"] <= 2.1
    assert 1.9 <= gpu.tflops["fp16"] / gpu.tflops.get("tf32", gpu.tflops["fp16"] / 2) <= 2.1
    assert (gpu.link_gbps > 128) == (gpu.link != "pcie")


def test_a_row_can_be_a_key() -> None:
    assert len(set(GPUS)) == len(GPUS)
