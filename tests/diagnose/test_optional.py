"""Optional packages: an absence weighs as much as the config's need of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from verlcli.config import Config, load_config
from verlcli.diagnose import optional
from verlcli.diagnose.optional import OPTIONAL, OptionalPackage, probe_optional

BY_MODULE = {package.module: package for package in OPTIONAL}


def config(tmp_path: Path, *overrides: str) -> Config:
    file = tmp_path / "c.yaml"
    file.write_text("model: {path: ./m}\ndata: {source: arithmetic}\n")
    return load_config([file], overrides, env={}).require()


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "is_installed", lambda module: False)


@pytest.mark.parametrize(
    ("module", "override", "status"),
    [
        ("vllm", "rollout.name=vllm", "WARN"),
        ("vllm", "actor.rollout_engine=vllm", "WARN"),
        ("flash_attn", "model.attn_implementation=flash_attention_2", "WARN"),
        ("flash_attn", "critic.use_flash_attention=true", "WARN"),
        ("deepspeed", "actor.training_engine=deepspeed", "WARN"),
        ("peft", "model.lora_rank=8", "FAIL"),
        ("gguf", "model.path=./x.gguf", "FAIL"),
        ("reasoning_gym", "data.source=reasoning_gym", "FAIL"),
        ("math_verify", "reward.function=math_verify", "FAIL"),
        ("verl", "backend=verl", "FAIL"),
        ("ray", "backend=verl", "FAIL"),
    ],
)
@pytest.mark.usefixtures("nothing_installed")
def test_package_a_config_asks_for_is_missed(module: str, override: str, status: str, tmp_path: Path) -> None:
    asking = probe_optional(BY_MODULE[module], has_gpu=False, config=config(tmp_path, override))
    assert asking.status == status
    assert "this config asks for it" in asking.evidence
    assert probe_optional(BY_MODULE[module], has_gpu=False, config=config(tmp_path)).status == "SKIP"


@pytest.mark.parametrize("package", OPTIONAL, ids=lambda package: package.module)
@pytest.mark.usefixtures("nothing_installed")
def test_absence_names_the_loss_and_the_install_line(package: OptionalPackage) -> None:
    finding = probe_optional(package, has_gpu=False)
    assert finding.status == "SKIP"
    assert finding.why
    assert (finding.fix or "").startswith("pip install ")


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("module", "has_gpu", "words"),
    [
        ("vllm", True, "falls back to hf, about 3x slower"),
        ("vllm", False, "of use only with a GPU"),
        ("peft", False, "lora_rank"),
    ],
)
def test_absence_says_what_it_means_on_this_machine(module: str, has_gpu: bool, words: str) -> None:
    assert words in probe_optional(BY_MODULE[module], has_gpu=has_gpu).evidence


def test_installed_package_passes_with_its_version() -> None:
    finding = probe_optional(BY_MODULE["peft"], has_gpu=False)
    assert finding.status == "PASS"
    assert finding.evidence[0].isdigit()
