"""GPUs that people train on: memory, speeds and links, and the many ways their names are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Literal

from verlcli.errors import ConfigError

Precision = Literal["bf16", "fp16", "tf32", "fp32", "fp8"]
Link = Literal["nvlink", "xgmi", "pcie"]


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Published figures of one GPU.

    `memory_gib` is what the driver reports, a little below the `nominal_gb` of the name. `tflops` are peaks of dense
    matrix products with fp32 sums; a precision the hardware lacks is absent. `link_gbps` is all links of one GPU to
    others of its node, in and out together (GB/s). `compute_capability` is None for AMD.
    """

    name: str
    nominal_gb: int
    memory_gib: float
    memory_gbps: float
    tflops: dict[Precision, float] = field(hash=False)
    compute_capability: tuple[int, int] | None
    link: Link
    link_gbps: float

    @property
    def supports_bf16(self) -> bool:
        """Whether matrix units compute bf16: NVIDIA from Ampere (8.0) on, AMD Instinct."""
        return self._at_least(8, 0)

    @property
    def supports_flash_attention(self) -> bool:
        """Whether FlashAttention 2 runs: Ampere and later, or its ROCm build (its README, "CUDA/ROCm support")."""
        return self._at_least(8, 0)

    @property
    def supports_fp8(self) -> bool:
        """Whether matrix units compute fp8: NVIDIA from Ada (8.9) on, AMD where `tflops` has it."""
        return self._at_least(8, 9) and "fp8" in self.tflops

    def _at_least(self, major: int, minor: int) -> bool:
        return self.compute_capability is None or self.compute_capability >= (major, minor)


def _gpu(  # one table row
    name: str,
    nominal_gb: int,
    memory_mib: int,
    memory_gbps: float,
    tflops: tuple[float, float, float, float, float],
    capability: tuple[int, int] | None,
    link: tuple[Link, float],
) -> GpuModel:
    precisions: tuple[Precision, ...] = ("bf16", "fp16", "tf32", "fp32", "fp8")
    peaks = {precision: peak for precision, peak in zip(precisions, tflops, strict=True) if peak}
    return GpuModel(name, nominal_gb, round(memory_mib / 1024, 1), memory_gbps, peaks, capability, *link)


_PCIE3: tuple[Link, float] = ("pcie", 32)
_PCIE4: tuple[Link, float] = ("pcie", 64)
_PCIE5: tuple[Link, float] = ("pcie", 128)
_H100 = (989.4, 989.4, 494.7, 66.9, 1978.9)

# Memory: MiB as nvidia-smi (rocm-smi) shows them, ECC on where the card has it.
GPUS: tuple[GpuModel, ...] = (
    # NVIDIA V100 and T4 datasheets; Volta and Turing have neither bf16 nor tf32.
    _gpu("V100-16G", 16, 16384, 900, (0, 125, 0, 15.7, 0), (7, 0), ("nvlink", 300)),
    _gpu("V100-32G", 32, 32768, 900, (0, 125, 0, 15.7, 0), (7, 0), ("nvlink", 300)),
    _gpu("T4", 16, 15360, 320, (0, 65, 0, 8.1, 0), (7, 5), _PCIE3),
    # NVIDIA A10, A30, A40, A100, A800 and RTX A6000 datasheets; bridges between two cards are not counted.
    _gpu("A10", 24, 23028, 600, (125, 125, 62.5, 31.2, 0), (8, 6), _PCIE4),
    _gpu("A30", 24, 24576, 933, (165, 165, 82, 10.3, 0), (8, 0), _PCIE4),
    _gpu("A40", 48, 46068, 696, (149.7, 149.7, 74.8, 37.4, 0), (8, 6), _PCIE4),
    _gpu("A100-40G", 40, 40960, 1555, (312, 312, 156, 19.5, 0), (8, 0), ("nvlink", 600)),
    _gpu("A100-80G", 80, 81920, 2039, (312, 312, 156, 19.5, 0), (8, 0), ("nvlink", 600)),
    _gpu("A100-PCIe-40G", 40, 40960, 1555, (312, 312, 156, 19.5, 0), (8, 0), _PCIE4),
    _gpu("A100-PCIe-80G", 80, 81920, 1935, (312, 312, 156, 19.5, 0), (8, 0), _PCIE4),
    _gpu("A800", 80, 81920, 2039, (312, 312, 156, 19.5, 0), (8, 0), ("nvlink", 400)),
    _gpu("A6000", 48, 49140, 768, (154.8, 154.8, 77.4, 38.7, 0), (8, 6), _PCIE4),
    # NVIDIA L4, L20, L40 and L40S datasheets, where they print sparse figures halved.
    _gpu("L4", 24, 23034, 300, (121, 121, 60, 30.3, 242.5), (8, 9), _PCIE4),
    _gpu("L20", 48, 46068, 864, (119.5, 119.5, 59.8, 59.8, 239), (8, 9), _PCIE4),
    _gpu("L40", 48, 46068, 864, (181.05, 181.05, 90.5, 90.5, 362), (8, 9), _PCIE4),
    _gpu("L40S", 48, 46068, 864, (362.05, 362.05, 183, 91.6, 733), (8, 9), _PCIE4),
    # NVIDIA GA102, Ada and RTX Blackwell architecture papers; GeForce halves its peaks for fp32 sums.
    _gpu("RTX 3090", 24, 24576, 936, (71, 71, 35.6, 35.6, 0), (8, 6), _PCIE4),
    _gpu("RTX 4090", 24, 24564, 1008, (165.2, 165.2, 82.6, 82.6, 330.3), (8, 9), _PCIE4),
    _gpu("RTX 5090", 32, 32607, 1792, (209.5, 209.5, 104.8, 104.8, 419), (12, 0), _PCIE5),
    # NVIDIA H100, H200 and H20 datasheets; H800 is H100 with fewer links.
    _gpu("H20-96G", 96, 97871, 4000, (148, 148, 74, 44, 296), (9, 0), ("nvlink", 900)),
    _gpu("H20-141G", 141, 143771, 4800, (148, 148, 74, 44, 296), (9, 0), ("nvlink", 900)),
    _gpu("H100", 80, 81559, 3350, _H100, (9, 0), ("nvlink", 900)),
    _gpu("H100-PCIe", 80, 81559, 2000, (756, 756, 378, 51, 1513), (9, 0), _PCIE5),
    _gpu("H800", 80, 81559, 3350, _H100, (9, 0), ("nvlink", 400)),
    _gpu("H200", 141, 143771, 4800, _H100, (9, 0), ("nvlink", 900)),
    # NVIDIA HGX B200 and GB200 NVL72 pages, one GPU's share, sparse figures halved.
    _gpu("B200", 180, 183359, 7700, (2250, 2250, 1125, 75, 4500), (10, 0), ("nvlink", 1800)),
    _gpu("GB200", 186, 189471, 8000, (2500, 2500, 1250, 80, 5000), (10, 0), ("nvlink", 1800)),
    # AMD Instinct MI300X datasheet; seven links of 128 GB/s.
    _gpu("MI300X", 192, 196592, 5300, (1307.4, 1307.4, 653.7, 163.4, 2614.9), None, ("xgmi", 896)),
)

_WORDS = re.compile(r"[a-z0-9]+")
_MEMORY = re.compile(r"(\d{1,6})(?:g|gb|gib)?")
# Words of full product names that tell nothing apart here.
_NOISE = re.compile(r"nvidia|amd|instinct|geforce|tesla|rtx|hgx|dgx|gpu|oam|nvl72|sxm\d?|hbm\d?e?|gi?b")
_SAME_SIZE = 0.08  # 79 GiB, 80G and 81920 MiB are one card; makers round differently


def find_gpu(text: str) -> GpuModel:
    """The GPU that `text` names, in any usual spelling: `A100-80G`, `NVIDIA A100-SXM4-80GB`, `h100`, `4090`.

    Raises:
        ConfigError: no such GPU here, a size it does not come in, or a name of several sizes without one.
    """
    words = [word.removeprefix("rtx") for word in _WORDS.findall(text.casefold()) if not _NOISE.fullmatch(word)]
    model, rest = words[0] if words else "", words[1:]
    form = "pcie" if "pcie" in rest else ""
    sizes = [_MEMORY.fullmatch(word) for word in rest if word != form]
    family = [gpu for gpu in GPUS if _base(gpu) == (model, form)] or [gpu for gpu in GPUS if _plain(gpu, model)]
    numbers = [int(size[1]) for size in sizes if size]
    if not family or len(numbers) != len(sizes) or len(numbers) > 1:
        raise _unknown(text, model)
    fitting = [gpu for gpu in family if not numbers or abs(gpu.nominal_gb - numbers[0]) <= _SAME_SIZE * gpu.nominal_gb]
    if len(fitting) != 1:
        raise _wrong_size(text, family, numbers)
    return fitting[0]


@cache
def _names() -> dict[str, str]:
    return {gpu.name.casefold(): gpu.name for gpu in GPUS}


def _base(gpu: GpuModel) -> tuple[str, str]:
    """First word of the name that is not noise, and the form factor when it is a variant: (`a100`, `pcie`)."""
    words = [word for word in _WORDS.findall(gpu.name.casefold()) if not _NOISE.fullmatch(word)]
    return words[0], "pcie" if "pcie" in words else ""


def _plain(gpu: GpuModel, model: str) -> bool:
    # Cards that sit on PCIe anyway are often written with the word; of an NVLink card it is another product.
    return _base(gpu) == (model, "") and gpu.link == "pcie"


def _unknown(text: str, model: str) -> ConfigError:
    close = [_names()[name] for name in _close(text.strip().casefold(), model)]
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    names = ", ".join(gpu.name for gpu in GPUS)
    return ConfigError(f"no GPU is known as '{text.strip()}'", fix=f"{meant}known: {names}")


def _close(text: str, model: str) -> Iterator[str]:
    family = [name for name in _names() if model and name.split("-")[0].removeprefix("rtx ") == model]
    yield from family or get_close_matches(model or text, _names(), n=2, cutoff=0.6)


def _wrong_size(text: str, family: list[GpuModel], numbers: list[int]) -> ConfigError:
    sizes = " or ".join(f"{gpu.nominal_gb} GB" for gpu in family)
    message = f"'{text.strip()}': this GPU has {sizes}" + (f", not {numbers[0]}" if numbers else "")
    return ConfigError(message, fix=f"write {' or '.join(gpu.name for gpu in family)}")
