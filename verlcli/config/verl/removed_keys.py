"""`~key` on a command line: what is not there cannot be removed, and what verl reads must stay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from verlcli.config.problems import Fix, Severity
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import Setting, VerlRun

# Read by name, without a default, in every run of 0.5 to 0.9 (verl/trainer/ppo/ray_trainer.py, main_ppo.py).
_READ = frozenset(
    (
        "trainer", "actor_rollout_ref", "actor_rollout_ref.model", "actor_rollout_ref.actor",
        "actor_rollout_ref.rollout", "data.train_files", "data.val_files", "data.train_batch_size", "trainer.logger",
        "trainer.project_name", "trainer.experiment_name", "trainer.total_epochs", "trainer.default_local_dir",
        "trainer.resume_mode", "trainer.nnodes", "trainer.n_gpus_per_node", "trainer.save_freq", "trainer.test_freq",
    )
)  # fmt: skip
# Read by name in some versions, or in some runs.
_SOMETIMES = frozenset(
    (
        "trainer.balance_batch", "trainer.critic_warmup", "trainer.device", "trainer.log_val_generations",
        "trainer.del_local_ckpt_after_load", "trainer.esi_redundant_time", "trainer.ray_wait_register_center_timeout",
    )
)  # fmt: skip


def removal_verdicts(run: VerlRun, setting: Setting, added: Mapping[str, Any]) -> Iterator[Verdict]:
    """What is wrong with a `~key`; `added` holds the keys that settings before it brought."""
    key = setting.key
    if run.unseen:
        return
    # Hydra removes only what is there and is not null.
    if added.get(key) is None and not run.tree.is_section(key) and run.tree.defaults.get(key) is None:
        yield _not_there(run, key)
    elif run.tree.entry == "main_ppo" and not _comes_back(run, setting):
        yield from _is_read(run, key)


def _comes_back(run: VerlRun, removal: Setting) -> bool:
    """Whether a later setting brings the key, or a part of the section, again."""
    for setting in reversed(run.every_setting()):
        if setting is removal:
            break
        if setting.prefix != "~" and f"{setting.key}.".startswith(f"{removal.key}."):
            return True
    return False


def _not_there(run: VerlRun, key: str) -> Verdict:
    what = "null by default" if run.tree.has(key) else f"no key of verl {run.version}"
    message = f"{run.name(key)} is {what}, and Hydra stops when it cannot remove something"
    return Verdict("VRL259", (key,), message, "remove this override", fix=Fix("remove", key))


def _is_read(run: VerlRun, key: str) -> Iterator[Verdict]:
    if key not in _READ | _SOMETIMES:
        return
    sure = key in _READ and run.is_of_verl and not run.takes_arguments
    severity: Severity = "error" if sure else "warning"
    when = "reads it" if key in _READ else "reads it in some runs"
    message = f"~{key} leaves nothing where verl {when}: the run stops there, as the code has no default of its own"
    # `~data` would need all of its keys back.
    instead = "" if run.tree.is_section(key) else f", or set it: {key}=VALUE"
    yield Verdict("VRL266", (key,), message, f"remove this override{instead}", severity, fix=Fix("remove", key))
