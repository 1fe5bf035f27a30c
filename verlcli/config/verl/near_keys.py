"""The keys that an unknown one may stand for: the same path with a slip, the same name elsewhere, a similar name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache, lru_cache

from verlcli.config.verl.run import VerlRun

_CLOSE, _VERY_CLOSE = 0.72, 0.85
_MOST = 3


@dataclass(frozen=True, slots=True)
class Near:
    """Keys that may be meant, the likeliest first; `sure` when there is no doubt which."""

    keys: tuple[str, ...]
    sure: bool


def meant_key(run: VerlRun, key: str) -> Near | None:
    """The keys of this launch's tree that `key` may stand for; never one that has no effect. None when none is near."""
    mended = _mended_path(run, key)
    if mended is not None:
        return mended
    same = _same_name(run, key)
    if same:
        # Another path altogether may be a key of the user's own.
        related = "." not in key or bool(set(key.split(".")[:-1]) & set(same[0].split(".")))
        return Near(tuple(same[:_MOST]), len(same) == 1 and related)
    return _similar_name(run, key)


def _mended_path(run: VerlRun, key: str) -> Near | None:
    """Each part that the tree does not have replaced by the sibling it resembles."""
    found, likeness = "", 1.0
    for part in key.split("."):
        children = run.tree.children(found)
        if part not in children or part == "_target_":
            names = [name for name in (*children, *run.tree.extra_fields(found)) if name != "_target_"]
            folded = {_folded(name): name for name in names}
            close = _closest(_folded(part), folded, _CLOSE)
            if close is None:
                return None
            likeness = min(likeness, SequenceMatcher(None, _folded(part), close).ratio())
            part = folded[close]
        found = f"{found}.{part}" if found else part
    if not _useful(run, found) or (run.tree.is_section(found) and not found.endswith(key.rpartition(".")[2])):
        return None
    return Near((found,), likeness >= _VERY_CLOSE)


def _folded(name: str) -> str:
    return name.lower().replace("-", "_")


def _same_name(run: VerlRun, key: str) -> list[str]:
    """Keys with the same last part, those that share most of the path first."""
    leaf, parts = _folded(key.rpartition(".")[2]), set(key.split("."))
    found = [other for other in _by_leaf(run).get(leaf, ()) if _useful(run, other)]
    ranked = sorted(found, key=lambda other: (-_shared(other, key), -len(parts & set(other.split("."))), len(other)))
    if len(ranked) > 1 and _rank(ranked[0], key) > _rank(ranked[1], key):
        return ranked[:1]
    return ranked


def _rank(other: str, key: str) -> tuple[int, int]:
    return _shared(other, key), len(set(key.split(".")) & set(other.split(".")))


def _shared(first: str, second: str) -> int:
    """Parts that two keys begin with alike."""
    count = 0
    for one, other in zip(first.split("."), second.split("."), strict=False):
        if one != other:
            break
        count += 1
    return count


def _similar_name(run: VerlRun, key: str) -> Near | None:
    names, leaf = _by_leaf(run), _folded(key.rpartition(".")[2])
    close = _closest(leaf, names, _VERY_CLOSE)
    useful = [other for other in names[close] if _useful(run, other)] if close is not None else []
    ranked = sorted(useful, key=lambda other: (*(-part for part in _rank(other, key)), len(other)))
    return Near((ranked[0],), False) if ranked else None


def _closest(text: str, names: Iterable[str], cutoff: float) -> str | None:
    """The name nearest to a text; None when none is as near as `cutoff`."""
    letters = frozenset(text)

    def likely(name: str) -> bool:
        """Whether the letters allow it: each that only one of the two has is one less that they share."""
        both = max(1, len(text) + len(name))
        if 2 * min(len(text), len(name)) / both < cutoff:
            return False
        shared = min(len(text) - len(letters - _letters(name)), len(name) - len(_letters(name) - letters))
        return 2 * shared / both >= cutoff

    close = get_close_matches(text, filter(likely, names), n=1, cutoff=cutoff)
    return close[0] if close else None


@cache
def _letters(name: str) -> frozenset[str]:
    return frozenset(name)


def _by_leaf(run: VerlRun) -> dict[str, list[str]]:
    """Keys of the launch's tree by the last part of their names."""
    return _of_tree(run.version, run.tree.entry, run.engine)


@lru_cache(maxsize=8)
def _of_tree(version: str, entry: str, engine: str) -> dict[str, list[str]]:
    from verlcli.facts.verl import key_tree

    names: dict[str, list[str]] = {}
    for key in key_tree(version, entry, engine).defaults:
        names.setdefault(key.rpartition(".")[2], []).append(key)
    return names


def _useful(run: VerlRun, key: str) -> bool:
    """Whether setting `key` has an effect in this launch."""
    from verlcli.facts.verl.history import without_effect
    from verlcli.facts.verl.renames import DEPRECATED

    return key not in DEPRECATED and not without_effect(key, run.version, run.entry or run.tree.entry)
