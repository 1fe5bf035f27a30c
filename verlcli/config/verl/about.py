"""What is known about one key of the real verl: where it exists, its defaults over the versions, what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from verlcli.config.wording import any_of, shown

if TYPE_CHECKING:
    from verlcli.facts.verl import KeyTree

TRAINER = "main_ppo"


def about_key(key: str, *, trainer_only: bool = False) -> dict[str, Any] | None:
    """`{"key": ..., "facts": [[word, sentence], ...]}`; None for a key that no version, fork or patch ever had.

    With `trainer_only` only for a key that verl's trainer itself has.
    """
    if trainer_only and not _of_trainer(key):
        return None
    facts = [list(fact) for fact in _facts(key)]
    return {"key": key, "facts": facts} if facts else None


def near_key(key: str) -> str | None:
    """The key of verl's trainer that a misspelt one resembles; None when none is near, or its section is not verl's."""
    from verlcli.facts.verl import key_tree

    tree = key_tree()
    section = key.partition(".")[0]
    if "." not in key or not tree.is_section(section):
        return None
    close = get_close_matches(key, tree.keys(), n=1, cutoff=0.85)
    return close[0] if close else None


def _of_trainer(key: str) -> bool:
    from verlcli.facts.verl import which_versions

    return bool(which_versions(key, TRAINER))


def _facts(key: str) -> Iterator[tuple[str, str]]:
    from verlcli.facts.verl import VERSIONS, which_versions

    versions = which_versions(key)
    if versions:
        yield "versions", f"all, {VERSIONS[0]} to {VERSIONS[-1]}" if versions == VERSIONS else ", ".join(versions)
        yield from _launches(key, versions[-1])
        yield from _defaults(key, versions)
        yield from _values(key, versions[-1])
    yield from _past(key)
    ours = _our_keys(key)
    if ours:
        yield "here", f"{any_of(ours)} in a config of verlcli"


def verl_keys_of(key: str) -> tuple[str, ...]:
    """Keys of verl that a key of ours becomes."""
    from verlcli.config.verl.mapping import PAIRS
    from verlcli.facts.verl import key_tree

    trees = [key_tree(), key_tree(engine="megatron")]
    found = [name for pair in PAIRS if key in pair.ours for tree in trees for name in pair.keys(tree)]
    return tuple(dict.fromkeys(found))


def _our_keys(key: str) -> list[str]:
    from verlcli.config.verl.mapping import PAIRS
    from verlcli.facts.verl import key_tree

    trees = [key_tree(), key_tree(engine="megatron")]
    return [pair.ours[0] for pair in PAIRS if any(key in pair.keys(tree) for tree in trees)]


def _launches(key: str, version: str) -> Iterator[tuple[str, str]]:
    """Where the key exists, when that is not the trainer with every engine."""
    from verlcli.facts.verl import engines, which_trees

    found = [tree.rpartition("/")[::2] for tree in which_trees(key, version)]
    mine = tuple(engine for entry, engine in found if entry == TRAINER)
    if not mine:
        yield "only in", ", ".join(dict.fromkeys(entry for entry, _ in found))
    elif len(mine) < len(engines(version, TRAINER)):
        yield "engines", ", ".join(mine)


def _tree(key: str, version: str) -> KeyTree:
    """The tree of `version` with `key` that most people run."""
    from verlcli.facts.verl import key_tree, which_trees

    found = which_trees(key, version)
    best = min(found, key=lambda tree: (not tree.startswith(f"{TRAINER}/"), not tree.endswith("/dp")))
    entry, _, engine = best.rpartition("/")
    return key_tree(version, entry, engine)


def _defaults(key: str, versions: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """`8 (0.5.0 to 0.8.0), 16 (since 0.9.0)`; nothing for a section."""
    newest = _tree(key, versions[-1])
    if newest.is_section(key):
        yield "keys", ", ".join(newest.children(key))
        return
    runs: list[tuple[str, str, str]] = []
    for version in versions:
        tree = _tree(key, version)
        if tree.is_section(key):
            continue
        value = shown(tree.default(key)) if tree.default(key) != "???" else "none: it has to be given"
        if runs and runs[-1][0] == value:
            runs[-1] = (value, runs[-1][1], version)
        else:
            runs.append((value, version, version))
    if len(runs) == 1:
        yield "default", runs[0][0]
    else:
        spans = [f"{value} ({first if first == last else f'{first} to {last}'})" for value, first, last in runs]
        yield "default", ", ".join(spans)


def _values(key: str, version: str) -> Iterator[tuple[str, str]]:
    from verlcli.facts.verl.types import choices

    found = choices(key, version)
    if found is not None:
        names = any_of("null" if choice is None else choice for choice in found.values)
        yield "takes", f"{names}, or what a plugin registers" if found.open else names


def _past(key: str) -> Iterator[tuple[str, str]]:
    from verlcli.facts.verl import DEFAULT_VERSION
    from verlcli.facts.verl.forks import fork_of
    from verlcli.facts.verl.history import NEVER_EXISTED, ignored, removal_reason, removed_in, rename_of

    never = NEVER_EXISTED.get(key)
    if never is not None:
        yield "never", f"no version of verl has it; {never} is what is meant"
    renamed = rename_of(key, DEFAULT_VERSION)
    gone = removed_in(key, DEFAULT_VERSION)
    without = ignored(key, DEFAULT_VERSION)
    if renamed is not None:
        yield "renamed", _joined(f"{renamed.new} since {renamed.since}", renamed.note)
    elif gone is not None:
        yield "removed", _joined(f"in {gone}", removal_reason(key))
    if without is not None:
        yield "ignored", _joined(f"has no effect; {without.new} has" if without.new else "has no effect", without.note)
    fork = fork_of(key) if renamed is None and gone is None and not _in_a_tree(key) else None
    if fork is not None:
        yield "fork", f"key of {fork.name}" + (f"; verl's is {fork.upstream}" if fork.upstream else "")


def _in_a_tree(key: str) -> bool:
    from verlcli.facts.verl import which_versions

    return bool(which_versions(key))


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
