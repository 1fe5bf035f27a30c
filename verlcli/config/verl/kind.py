"""What an input file is: a config of ours, a launch script, or a Hydra config of verl."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Literal

from verlcli.errors import ConfigError

Kind = Literal["ours", "script", "hydra"]

_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch", ".zsh", ".ksh")
_YAML = (".yaml", ".yml", ".json")
_LINE = re.compile(r"^(?P<indent> *)(?:-\s+)?(?P<name>[A-Za-z_][\w./@-]*)[\"']?\s*:(?:\s|$)")
_OVERRIDE = re.compile(r"^-\s+[\"']?(?:\+\+?|~)?[A-Za-z_][\w./@-]*=")
_COMMAND = re.compile(
    r"^\s*(?:export\s|set -|#SBATCH|python3?\s|torchrun\s|ray\s|source\s|[A-Za-z_]\w*=\S)", re.MULTILINE
)

# A key that the other side does not have, and how sure it makes. Two levels at most, so that no nesting misleads.
_HYDRA = {
    "defaults": 3,
    "hydra": 3,
    "hydra.searchpath": 3,
    "actor_rollout_ref.actor": 3,
    "actor_rollout_ref.rollout": 3,
    "actor_rollout_ref.model": 3,
    "actor_rollout_ref.ref": 3,
    "actor_rollout_ref.hybrid_engine": 3,
    "algorithm.adv_estimator": 2,
    "algorithm.use_kl_in_reward": 2,
    "trainer.n_gpus_per_node": 2,
    "trainer.nnodes": 2,
    "trainer.project_name": 2,
    "trainer.experiment_name": 2,
    "trainer.logger": 2,
    "trainer.default_local_dir": 2,
    "trainer.total_epochs": 1,
    "trainer.total_training_steps": 1,
    "data.reward_fn_key": 2,
    "data.return_raw_chat": 2,
    "data.train_batch_size": 0,
    "critic.model": 2,
    "critic.strategy": 2,
    "critic.ppo_micro_batch_size_per_gpu": 2,
    "reward.custom_reward_function": 2,
    "reward.reward_manager": 2,
    "reward_model.enable": 2,
    "reward_model.reward_manager": 2,
    "custom_reward_function": 2,
    "sandbox_fusion": 2,
    "ray_kwargs": 3,
    "ray_init": 2,
    "global_profiler": 3,
    "transfer_queue": 3,
    "async_training": 2,
    "engine": 1,
    "optim": 1,
}
_OURS = {
    "extends": 3,
    "backend": 3,
    "training": 3,
    "distributed": 2,
    "reference": 2,
    "monitor": 1,
    "verl": 2,
    "actor": 1,
    "fsdp_config": 1,
    "model.path": 0,
    "algorithm.name": 2,
    "algorithm.kl_in": 2,
    "rollout.name": 1,
    "rollout.n": 1,
    "rollout.temperature": 1,
    "reward.function": 2,
    "trainer.total_steps": 2,
    "trainer.output_dir": 2,
    "trainer.loggers": 2,
}

_TOPS = frozenset(name.partition(".")[0] for name in (*_HYDRA, *_OURS))
# Top keys by which files of other programs are known, none of which stands in a config of ours or of verl.
_OTHERS = (
    ("a Kubernetes manifest", frozenset(("apiVersion", "kind"))),
    ("a sweep of Weights & Biases", frozenset(("method", "parameters"))),
    ("a sweep of Weights & Biases", frozenset(("program", "parameters"))),
    ("a file for Docker Compose", frozenset(("services",))),
    *(("a Ray runtime environment", frozenset((name,))) for name in ("working_dir", "env_vars", "py_modules")),
)


def kind_of(path: str, text: str) -> Kind:
    """Tell a launch script, a Hydra config of verl and a config of ours apart; a tie is ours.

    The ending of the name decides for scripts, then `#!`, then the keys of the first two levels. The text need not be
    sound: what cannot be read is reported by the reader of its kind.

    Raises:
        ConfigError: it is a well-known file of another program.
    """
    suffix = PurePath(path).suffix.lower()
    if suffix in _SCRIPTS or re.match(r"\ufeff?#!.*\b(?:ba|z|k|da)?sh\b", text):
        return "script"
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    if _OVERRIDE.match(first):
        return "hydra"
    names = list(_names(text))
    if suffix not in _YAML and _COMMAND.search(text) and not names:
        return "script"
    hydra, ours = (sum(table.get(name, 0) for name in set(names)) for table in (_HYDRA, _OURS))
    if suffix in ("", *_YAML) and not _TOPS.intersection(name.partition(".")[0] for name in names):
        _refuse_others(path, frozenset(names))
    dotted = any(name.startswith("actor_rollout_ref.") for name in _tops(text))
    return "hydra" if dotted or hydra > ours else "ours"


def _refuse_others(path: str, names: frozenset[str]) -> None:
    for what, signs in _OTHERS:
        if signs <= names:
            fix = "name the script that starts the launch, or a config; `verl init` writes one"
            raise ConfigError(f"{what}, and no config of verlcli or verl", where=path, fix=fix)


def _tops(text: str) -> Iterator[str]:
    matches = map(_LINE.match, text.splitlines())
    return (match["name"] for match in matches if match and not match["indent"])


def _names(text: str) -> Iterator[str]:
    """Keys of the first level, and of the second as `first.second`."""
    top, inner = "", 0
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        indent, name = len(match["indent"]), match["name"]
        if indent == 0:
            top, inner = name, 0
            yield name
        elif top and indent <= (inner or indent):
            inner = indent
            yield f"{top}.{name}"
