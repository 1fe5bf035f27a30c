"""Optional packages: which are installed, what each absence means, and which ones a config needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verlcli.diagnose.finding import Finding, Status
from verlcli.diagnose.packages import installed_version, is_installed

if TYPE_CHECKING:
    from verlcli.config.types import Config


@dataclass(frozen=True, slots=True)
class OptionalPackage:
    """One optional package.

    Attributes:
        module, distribution: its names for `import` and for pip.
        without: what a run loses without it.
        install: the shell command that installs it.
        needs_gpu: useless on a machine without a GPU.
        missed: how bad its absence is for a config that asks for it: FAIL stops the run, WARN has a fallback.
        asked_for: whether a config asks for it.
    """

    module: str
    distribution: str
    without: str
    install: str
    needs_gpu: bool
    missed: Status
    asked_for: Callable[[Config], bool]


def _uses_flash_attention(config: Config) -> bool:
    roles = (config.actor, config.critic, config.reference, config.reward_model)
    return "flash" in config.model.attn_implementation or any(role.use_flash_attention for role in roles)


OPTIONAL = (
    OptionalPackage(
        "vllm",
        "vllm",
        "rollout falls back to hf, about 3x slower (the local backend of this release drives hf alone)",
        "pip install vllm",
        needs_gpu=True,
        missed="WARN",
        asked_for=lambda config: "vllm" in (config.rollout.name, config.actor.rollout_engine),
    ),
    OptionalPackage(
        "flash_attn",
        "flash-attn",
        "attention runs through torch's SDPA: longer sequences cost more memory and time",
        "pip install flash-attn --no-build-isolation",
        needs_gpu=True,
        missed="WARN",
        asked_for=_uses_flash_attention,
    ),
    OptionalPackage(
        "deepspeed",
        "deepspeed",
        "training_engine: deepspeed falls back to torch",
        "pip install deepspeed",
        needs_gpu=True,
        missed="WARN",
        asked_for=lambda config: "deepspeed" in (config.actor.training_engine, config.critic.training_engine),
    ),
    OptionalPackage(
        "peft",
        "peft",
        "model.lora_rank above 0 cannot be trained",
        "pip install 'verlcli[lora]'",
        needs_gpu=False,
        missed="FAIL",
        asked_for=lambda config: config.model.lora_rank > 0,
    ),
    OptionalPackage(
        "gguf",
        "gguf",
        ".gguf model files cannot be read",
        "pip install gguf",
        needs_gpu=False,
        missed="FAIL",
        asked_for=lambda config: (config.model.path or "").endswith(".gguf"),
    ),
    OptionalPackage(
        "reasoning_gym",
        "reasoning-gym",
        "data.source: reasoning_gym has no generator",
        "pip install reasoning-gym",
        needs_gpu=False,
        missed="FAIL",
        asked_for=lambda config: config.data.source == "reasoning_gym",
    ),
    OptionalPackage(
        "math_verify",
        "math-verify",
        "the math-verify reward cannot compare formulas",
        "pip install math-verify",
        needs_gpu=False,
        missed="FAIL",
        asked_for=lambda config: any("math_verify" in name.replace("-", "_") for name in config.reward.function),
    ),
    OptionalPackage(
        "verl",
        "verl",
        "backend: verl is not available; backend: local is not affected",
        "pip install verl",
        needs_gpu=True,
        missed="FAIL",
        asked_for=lambda config: config.backend == "verl",
    ),
    OptionalPackage(
        "ray",
        "ray",
        "backend: verl is not available; backend: local is not affected",
        "pip install ray",
        needs_gpu=True,
        missed="FAIL",
        asked_for=lambda config: config.backend == "verl",
    ),
)


def get_available_backends() -> dict[str, bool]:
    """Which engines and optional packages can be imported here, by module name; nothing is imported.

    `hf` (generation through transformers) and `torch` (training in one process) are the ones every install has.
    """
    core = {"hf": is_installed("transformers"), "torch": is_installed("torch")}
    return core | {package.module: is_installed(package.module) for package in OPTIONAL}


def probe_optional(package: OptionalPackage, *, has_gpu: bool, config: Config | None = None) -> Finding:
    """Installed: PASS. Absent: as bad as the config's need of it, else SKIP."""
    if is_installed(package.module):
        version = installed_version(package.distribution) or "of unknown version"
        return Finding(package.distribution, "PASS", f"{version} installed")
    if config is not None and package.asked_for(config):
        evidence = "not installed, and this config asks for it"
        return Finding(package.distribution, package.missed, evidence, why=package.without, fix=package.install)
    evidence = "not installed; of use only with a GPU"
    if has_gpu or not package.needs_gpu:
        evidence = f"not installed: {package.without}"
    return Finding(package.distribution, "SKIP", evidence, why=package.without, fix=package.install)
