"""Which engine serves each role on each backend, with the reason; what is asked for and absent falls back by name."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from packaging.version import InvalidVersion, Version

from verlcli.errors import ConfigError
from verlcli.plan.types import Device, Note

ROLLOUT = ("hf", "vllm", "sglang", "graph")
TRAINING = ("torch", "fsdp", "deepspeed", "mcore")
FORWARD = ("hf", "torch", "vllm", "sglang", "fsdp", "mcore")  # reference and reward model: no update

OLDEST_VLLM = Version("0.24")  # whose weights are known to be reloaded in place
# Measured on one H200, vLLM 0.24 apart (docs/performance.md).
FACTOR = "expect about 6 times its tokens/s at 0.5B parameters and the same at 7B"

_VERL_ROLLOUT = ("vllm", "sglang", "hf")
_VERL_TRAINING = ("fsdp", "mcore")
_VERL_FORWARD = ("fsdp", "mcore", "vllm", "sglang", "hf")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine's name, why it is that one, and what the user should know about it."""

    name: str
    reason: str
    notes: tuple[Note, ...] = ()


def rollout_engine(asked: str | None, key: str, backend: str, device: Device) -> Engine:
    """The engine that generates. `asked` is the value of `key`; None lets the planner choose.

    Raises:
        ConfigError: no such engine, or not on this backend.
    """
    if backend == "verl":
        return _on_verl(asked, key, _VERL_ROLLOUT)
    _check_known(asked, key, ROLLOUT)
    if asked is None:
        return Engine("graph", "the local backend's own decode loop")
    if asked in ("graph", "hf") or (asked == "vllm" and device == "cuda" and _vllm_is_usable()):
        return Engine(asked, key)
    message = f"{_why_not(asked, device)}: falls back to graph"
    if asked == "vllm" and device == "cuda":
        message += f", {FACTOR}"
    return Engine("graph", f"{asked} asked for, falls back", (Note("warning", key, message),))


def training_engine(asked: str | None, key: str, backend: str) -> Engine:
    """The engine that trains actor or critic; arguments and errors as `rollout_engine`."""
    if backend == "verl":
        return _on_verl(asked, key, _VERL_TRAINING)
    _check_known(asked, key, TRAINING)
    _refuse_mcore(asked, key)
    if asked is None:
        return Engine("torch", "one process")
    if asked == "torch":
        return Engine("torch", key)
    message = f"{asked} shards over processes and the local backend trains in one: torch instead"
    return Engine("torch", f"{asked} asked for; one process", (Note("info", key, message),))


def forward_engine(asked: str | None, key: str, backend: str) -> Engine:
    """The engine of a role that is never updated; arguments and errors as `rollout_engine`."""
    if backend == "verl":
        return _on_verl(asked, key, _VERL_FORWARD)
    _check_known(asked, key, FORWARD)
    _refuse_mcore(asked, key)
    if asked in (None, "hf", "torch"):
        return Engine("hf", "forward passes only" if asked is None else key)
    message = f"{asked} is not driven by the local backend: hf instead"
    return Engine("hf", f"{asked} asked for, falls back", (Note("warning", key, message),))


def _on_verl(asked: str | None, key: str, choices: tuple[str, ...]) -> Engine:
    if asked is None:
        return Engine(choices[0], "the verl backend's default")
    if asked not in choices:
        raise ConfigError(
            f"{asked!r} does not exist on the verl backend", where=key, fix=f"choose one of {', '.join(choices)}"
        )
    return Engine(asked, key)


def _check_known(asked: str | None, key: str, choices: tuple[str, ...]) -> None:
    if asked is not None and asked not in choices:
        raise ConfigError(f"{asked!r} is not an engine", where=key, fix=f"choose one of {', '.join(choices)}")


def _refuse_mcore(asked: str | None, key: str) -> None:
    if asked == "mcore":
        raise ConfigError(
            "mcore exists through the verl backend only", where=key, fix="set backend: verl, or remove the key"
        )


def _vllm_is_usable() -> bool:
    try:
        return Version(metadata.version("vllm")) >= OLDEST_VLLM
    except (metadata.PackageNotFoundError, InvalidVersion):
        return False


def _why_not(asked: str, device: Device) -> str:
    if asked == "vllm":
        return "vllm needs a GPU" if device == "cpu" else "vllm >= 0.24 is not installed (pip install 'verlcli[vllm]')"
    return f"the local backend does not drive {asked}"
