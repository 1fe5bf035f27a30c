"""What became of a key: renamed, removed, still accepted yet without effect, or never there at all."""

from __future__ import annotations

from functools import cache

from verlcli.facts.verl.choices import choices
from verlcli.facts.verl.flips import DEFAULT_FLIPS, Flip, flips
from verlcli.facts.verl.removals import REMOVED, SILENTLY_IGNORED, WITHOUT_EFFECT, Ignored
from verlcli.facts.verl.renames import (
    DEPRECATED,
    MODULE_RENAMES,
    NEVER_EXISTED,
    RENAMES,
    SECTION_RENAMES,
    VALUE_RENAMES,
    Rename,
)
from verlcli.facts.verl.trees import VERSIONS, which_versions
from verlcli.facts.verl.versions import nearest_version

__all__ = [
    "DEFAULT_FLIPS",
    "DEPRECATED",
    "MODULE_RENAMES",
    "NEVER_EXISTED",
    "REMOVED",
    "RENAMES",
    "SECTION_RENAMES",
    "SILENTLY_IGNORED",
    "Flip",
    "Ignored",
    "Rename",
    "choice_removed",
    "flips",
    "ignored",
    "removal_reason",
    "removed_in",
    "rename_of",
    "without_effect",
]


def rename_of(key: str, version: str) -> Rename | None:
    """The new name of a key that is older than `version`, sections included; None if it was not renamed by then."""
    if version in which_versions(key):
        return None
    found = RENAMES.get(key)
    if found is None:
        for pattern, section in SECTION_RENAMES.items():
            if key.startswith(pattern[:-1]):
                rest = key[len(pattern) - 1 :]
                found = Rename(section.new[:-1] + rest, section.since, section.note, {}, section.entry, section.engine)
    return found if found is not None and _reached(found.since, version) else None


def ignored(key: str, version: str, entry: str = "main_ppo") -> Ignored | None:
    """Why a key that the tree has does nothing in this version and entry point; None if it does something."""
    names = key.split(".")
    parents = [".".join(names[:count]) for count in range(len(names), 0, -1)]
    found = next((SILENTLY_IGNORED[name] for name in parents if name in SILENTLY_IGNORED), None)
    if found is None:
        return None
    since, fixed = found.since.get(entry, found.since.get("*")), found.fixed.get(entry)
    active = since is not None and _reached(since, version) and not (fixed is not None and _reached(fixed, version))
    return found if active else None


def without_effect(key: str, version: str, entry: str = "main_ppo") -> bool:
    """Whether setting a key that the tree has changes nothing in this version and entry point."""
    since = WITHOUT_EFFECT.get(key)
    return (since is not None and _reached(since, version)) or ignored(key, version, entry) is not None


@cache
def removed_in(key: str, version: str) -> str | None:
    """First of VERSIONS after the last one that had `key`, if `version` is not older; None if none ever had it.

    A key that only releases before the oldest of VERSIONS had is removed in the oldest. "main" is a snapshot that may
    lag behind the newest release, so what it lacks alone counts as not removed.
    """
    if not which_versions(key):
        return VERSIONS[0] if removal_reason(key) else None
    having = [name for name in which_versions(key) if VERSIONS.index(name) < VERSIONS.index(version)]
    if not having or version in which_versions(key):
        return None
    gone = VERSIONS[VERSIONS.index(having[-1]) + 1]
    return None if gone == "main" else gone


def removal_reason(key: str) -> str:
    """Why a key is gone, or what took its place; empty where verl does not say."""
    names = key.split(".")
    return next(
        (REMOVED[name] for count in range(len(names), 0, -1) if (name := ".".join(names[:count])) in REMOVED), ""
    )


def choice_removed(key: str, value: str, version: str) -> tuple[str | None, str | None]:
    """First release that lacks a choice which an older one had, and what to write instead; None for what is not known.

    Such as ("0.7", "async") for `rollout.mode=sync`: the only choice that is left took its place.
    """
    older = VERSIONS[: VERSIONS.index(version)]
    had = [name for name in older if (known := choices(key, name)) and value in known.values]
    now = choices(key, version)
    left = now.values if now else ()
    if not had or value in left:
        return None, None
    gone = VERSIONS[VERSIONS.index(had[-1]) + 1]
    successor = VALUE_RENAMES.get(key.rpartition(".")[2], {}).get(value, left[0] if len(left) == 1 else None)
    # VERSIONS has one of most minor releases, and what its last one lacks, the first one lacked.
    minor = gone.rpartition(".")[0]
    return gone if not minor or had[-1].startswith(f"{minor}.") else minor, successor


def _reached(since: str, version: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(nearest_version(since))
