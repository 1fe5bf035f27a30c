"""Keys that the tree still has under an old name: without effect, or heeded with a warning."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from verlcli.config.problems import Fix
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import UNKNOWN, Setting, VerlRun

if TYPE_CHECKING:
    from verlcli.facts.verl.removals import Ignored


def legacy_verdicts(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    """An old name; an error when the setting is silently lost."""
    key = setting.key
    entry = run.entry if run.entry and run.is_of_verl else run.tree.entry
    lost = _ignored(key, run.version, entry)
    if lost is not None:
        yield from _lost(run, setting, lost.new, lost.note)
    else:
        yield from _deprecated(run, setting)


@lru_cache(maxsize=4096)
def _ignored(key: str, version: str, entry: str) -> Ignored | None:
    from verlcli.facts.verl.history import ignored

    return ignored(key, version, entry)


def _lost(run: VerlRun, setting: Setting, new: str | None, note: str) -> Iterator[Verdict]:
    key = setting.key
    if setting.value == run.tree.defaults.get(key) or run.tree.is_section(key):
        return
    code = (
        "VRL227" if key.partition(".")[0] in ("reward_model", "custom_reward_function", "sandbox_fusion") else "VRL263"
    )
    meant = moved_name(key, new)
    why = f": {note}" if note else ""
    message = f"verl {run.version} accepts {key} and ignores it{why}"
    known = _known(run, meant) if meant else ()
    same = not known or setting.value is UNKNOWN or str(setting.value) in known
    fix = Fix("rename", key, meant) if same and meant and run.tree.has(meant) and not run.is_set(meant) else None
    # What Hydra had to add under the old name has to be added under the new one too.
    plus = "" if not meant or run.tree.has(meant) or run.source != "script" else "+"
    if same:
        advice = f"write {plus}{meant}={setting.raw}" if meant else "remove it"
    else:
        advice = f"write {meant}=NAME, where verl {run.version} has: {', '.join(known)}"
    yield Verdict(code, (key,), message, advice, "error" if run.is_of_verl else "warning", fix=fix)


def _known(run: VerlRun, key: str) -> tuple[str, ...]:
    from verlcli.facts.verl.types import choices

    found = choices(key, run.version)
    return found.values if found else ()


def moved_name(key: str, new: str | None) -> str | None:
    """The new name, with what stands below a section that moved."""
    from verlcli.facts.verl.removals import SILENTLY_IGNORED

    if new is None or key in SILENTLY_IGNORED:
        return new
    names = key.split(".")
    old = next(name for at in range(len(names), 0, -1) if (name := ".".join(names[:at])) in SILENTLY_IGNORED)
    return new + key[len(old) :]


def _deprecated(run: VerlRun, setting: Setting) -> Iterator[Verdict]:
    from verlcli.facts.verl.renames import DEPRECATED

    rename = DEPRECATED.get(setting.key)
    # What a global micro-batch size means depends on the other keys; the rule about micro-batches says it.
    if rename is None or setting.key.endswith("micro_batch_size") or not run.tree.has(rename.new):
        return
    if setting.value == run.tree.defaults.get(setting.key):
        return
    note = f", {rename.note}" if rename.note else ""
    message = f"{setting.key} is an old name that verl still heeds; since {rename.since} it is {rename.new}{note}"
    fix = Fix("rename", setting.key, rename.new) if not rename.note and not run.is_set(rename.new) else None
    yield Verdict("VRL263", (setting.key,), message, f"write {rename.new}", "note", fix=fix)
