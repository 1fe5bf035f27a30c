"""Package probes read metadata and never import."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from verlcli.diagnose import get_available_backends, packages


def test_python_of_this_run_passes() -> None:
    assert packages.probe_python().status == "PASS"


@pytest.mark.parametrize(("version", "status"), [((3, 9, 1), "WARN"), ((3, 13, 9), "PASS"), ((3, 14, 0), "WARN")])
def test_python_outside_the_tested_range_warns(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int], status: str
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert packages.probe_python().status == status


@pytest.mark.parametrize("distribution", ["torch", "transformers"])
def test_core_package_passes_with_the_range_of_our_metadata(distribution: str) -> None:
    finding = packages.probe_requirement(distribution)
    assert finding.status == "PASS"
    assert finding.evidence.startswith(metadata.version(distribution))
    assert ">=" in finding.evidence


@pytest.mark.parametrize(
    ("version", "words"), [("5.4.0", "not supported"), ("6.0", "not supported"), (None, "nothing can be trained")]
)
def test_package_out_of_range_fails_with_the_install_line(
    monkeypatch: pytest.MonkeyPatch, version: str | None, words: str
) -> None:
    monkeypatch.setattr(packages, "installed_version", lambda _: version)
    finding = packages.probe_requirement("transformers")
    assert finding.status == "FAIL"
    assert words in (finding.why or "")
    assert (finding.fix or "").startswith("pip install 'transformers")


def test_cuda_build_of_torch_is_what_torch_itself_says() -> None:
    code = "import torch; print(torch.version.cuda)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert str(packages.torch_cuda_build()) == said


def test_folder_of_the_same_name_is_not_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deepspeed_of_mine").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not packages.is_installed("deepspeed_of_mine")


def test_available_backends_names_the_core_and_every_optional_package() -> None:
    backends = get_available_backends()
    assert backends["hf"]
    assert backends["torch"]
    assert {"vllm", "flash_attn", "deepspeed", "peft", "verl", "ray"} <= backends.keys()
    assert backends["peft"]
