"""Rules about what a launch brings along: environment variables and packages that this verl does not bear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from verlcli.config.problems import Place, Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.rules._reading import ROLLOUT, at_least
from verlcli.config.verl.run import VerlRun

if TYPE_CHECKING:
    from packaging.specifiers import Specifier, SpecifierSet
    from packaging.version import Version

    _End = tuple[Version, bool]  # of a range: a version, and whether it is in it

_NAME, _FREE, _SLEEP = f"{ROLLOUT}.name", f"{ROLLOUT}.free_cache_engine", f"{ROLLOUT}.enable_sleep_mode"
_COMMAND = "pip install"
_PIP = "ray_kwargs.ray_init.runtime_env.pip"
_ENV = "ray_kwargs.ray_init.runtime_env.env_vars"
_OLD_NAME, _NEW_NAME = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"


@rule()
def allocator_lets_vllm_sleep(run: VerlRun) -> Iterator[Verdict]:
    """VRL237: expandable segments, which vLLM's sleep mode does not bear.

    Why: vLLM frees its memory between rollouts through a pool of its own (free_cache_engine=True). Until April 2026 it
        refused to start with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; since then it switches the segments off
        for the pool, if they were asked for under that name.
    Example: export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, with verl 0.8
    Instead: unset PYTORCH_CUDA_ALLOC_CONF; verl switches the segments on itself where they help
    Source: vLLM's device_allocator/cumem.py, vLLM pull request 40812; verl/workers/engine_workers.py
    """
    if run.text(_NAME) != "vllm" or not run.flag(_FREE) or run.get(_SLEEP) is False:
        return
    for name in (_OLD_NAME, _NEW_NAME):
        variable = run.environment.get(name)
        inner = run.get(f"{_ENV}.{name}")
        value = inner if isinstance(inner, str) else variable.value if variable else None
        if value is not None and "expandable_segments:True" in value:
            yield _refused(run, name)


def _refused(run: VerlRun, name: str) -> Verdict:
    keys = (f"{_ENV}.{name}", _FREE)
    advice = f"unset {name}; verl switches expandable segments on by itself where they help"
    if name == _NEW_NAME:
        message = f"{name} has expandable_segments:True, which vLLM's sleep mode does not notice and cannot bear"
        return Verdict("VRL237", keys, message, advice, "warning")
    if at_least(run, "0.9"):
        message = f"{name} has expandable_segments:True, which vLLM up to spring 2026 refuses in sleep mode"
        return Verdict("VRL237", keys, message, advice, "note")
    return Verdict("VRL237", keys, f"{name} has expandable_segments:True, which vLLM refuses in sleep mode", advice)


@rule()
def packages_suit_verl(run: VerlRun) -> Iterator[Verdict]:
    """VRL239: the launch installs a package in a version that this verl does not run with.

    Why: Ray installs `runtime_env.pip` for every worker. Outside the versions that verl asks for, imports fail in the
        workers, after the cluster is up.
    Example: ray_kwargs.ray_init.runtime_env.pip=[vllm==0.8.4], with verl 0.9.1
    Instead: ray_kwargs.ray_init.runtime_env.pip=[vllm==0.24.0]
    Source: verl's requirements in setup.py and its wheel, per version
    """
    value = run.get(_PIP)
    packages = value.get("packages") if isinstance(value, dict) else value
    for text in packages if isinstance(packages, list) else []:
        if isinstance(text, str):
            yield from _package(run, text)


@rule()
def installed_packages_suit_verl(run: VerlRun) -> Iterator[Verdict]:
    """VRL239: the script installs a package in a version that this verl does not run with.

    Why: pip takes the version that is named last, whatever verl asks for. Outside the versions that verl asks for,
        imports fail when the workers start.
    Example: pip install vllm==0.8.4, with verl 0.9.1
    Instead: pip install vllm==0.24.0, or the verl that suits it
    Source: verl's requirements in setup.py and its wheel, per version
    """
    for command in run.script.commands if run.script else ():
        words = [word for word in command.words if word]
        if "install" in words[:5] and any(PurePath(word).name in ("pip", "pip3", "uv") for word in words[:4]):
            for word in words[words.index("install") + 1 :]:
                yield from _package(run, word, command.place)


def _package(run: VerlRun, text: str, place: Place | None = None) -> Iterator[Verdict]:
    from packaging.requirements import InvalidRequirement, Requirement

    from verlcli.facts.verl.versions import is_optional, requirement

    try:
        asked = Requirement(text)
    except InvalidRequirement:
        return
    allowed = requirement(asked.name, run.version)
    if allowed is not None and _excludes(asked.specifier, allowed):
        # An engine of another version may happen to work; what verl itself imports does not.
        severity: Severity = "warning" if is_optional(asked.name, run.version) else "error"
        message = f"{text} does not suit verl {run.version}"
        keys = (_COMMAND,) if place else (_PIP,)
        yield Verdict("VRL239", keys, message, f"it needs {asked.name}{allowed}", severity, place=place)


def _excludes(asked: SpecifierSet, allowed: SpecifierSet) -> bool:
    """Whether no version satisfies both: pip takes the newest that was asked for, which need not suit otherwise."""
    exact = [pin.version for pin in asked if pin.operator == "==" and "*" not in pin.version]
    if len(exact) == 1:
        return not allowed.contains(exact[0], prereleases=True)
    low, high = _bounds([*asked, *allowed])
    if low is None or high is None:
        return False
    return low[0] > high[0] or (low[0] == high[0] and not (low[1] and high[1]))


def _bounds(pins: Iterable[Specifier]) -> tuple[_End | None, _End | None]:
    """Highest lower and lowest upper bound among simple specifiers."""
    from packaging.version import Version

    low: _End | None = None
    high: _End | None = None
    for pin in pins:
        if "*" in pin.version or pin.operator not in ("==", ">=", ">", "<=", "<"):
            continue
        end = (Version(pin.version), "=" in pin.operator)
        # At the same version an open end is the narrower one.
        if pin.operator in ("==", ">=", ">") and (low is None or (end[0], not end[1]) > (low[0], not low[1])):
            low = end
        if pin.operator in ("==", "<=", "<") and (high is None or end < high):
            high = end
    return low, high


RULES: tuple[VerlRule, ...] = (allocator_lets_vllm_sleep, packages_suit_verl, installed_packages_suit_verl)
