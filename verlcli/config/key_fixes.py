"""Finding -> Fix: what is mechanical about a wrong key or value of our own YAML; None where somebody must decide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from verlcli.config.keys import SHORT_FORMS, KeyPath, accepts, dotted, known_keys, schema_at
from verlcli.config.problems import Fix
from verlcli.config.renames import CHOICES, NOTES, RENAMES
from verlcli.config.violations import violations
from verlcli.config.wording import edits, folded

_TRUE, _FALSE, _NOTHING = ("true", "yes", "on"), ("false", "no", "off"), ("none", "null", "nil")
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MOST_SLIPS = 2
# A batch for sampling is more than a training batch, and one section's key says nothing about another role.
_NOT_THE_SAME = ("gen_batch_size",)
_ROLES = ("critic", "reference", "reward_model")
# Words of other programs that mean exactly what ours means.
_SAME_CHOICE = ("bfloat16", "float16", "half", "float32", "low_var_kl", "kl", "mse", "token_mean")


def key_fix(path: KeyPath, value: Any) -> Fix | None:
    """A rename for an unknown key, where there is one key that it can be and its value is legal there.

    Args:
        path: of the unknown key, short forms spelt out; the fix names it so too.
        value: at the key.
    """
    if not path or not all(isinstance(part, str) for part in path):
        return None
    meant = _sibling(path) or _home(path) or _renamed(path) or _slip(path)
    node = schema_at(meant) if meant is not None else None
    if meant is None or node is None or not _fits(meant, node, value):
        return None
    return Fix("rename", dotted(path), dotted(meant))


def _fits(path: KeyPath, node: dict[str, Any], value: Any) -> bool:
    """Whether a value is legal at a key, or only spelt in another way."""
    if not violations(node, value):
        return True
    return (choice_fix(path, node, value) if "enum" in node else value_fix(path, node, value)) is not None


def as_written(fix: Fix, path: KeyPath, written: str) -> Fix:
    """The fix of `path` in the file's own spelling: a key beside another stays in the short form around both."""
    if fix.action != "rename":
        return _named(fix, written, fix.to)
    target = str(fix.to).split(".")
    beside = target[:-1] == list(path[:-1])
    section = written.rpartition(".")[0]
    return _named(fix, written, ".".join(filter(None, (section, target[-1]))) if beside else fix.to)


def _named(fix: Fix, key: str, to: Any) -> Fix:
    return Fix(fix.action, key, to, fix.place, fix.old)


def _sibling(path: KeyPath) -> KeyPath | None:
    """The same name in other letters: `trainBatchSize`."""
    found = _siblings(path).get(folded(str(path[-1])))
    return (*path[:-1], found) if found else None


def _siblings(path: KeyPath) -> dict[str, str]:
    return {folded(key): key for key in (schema_at(path[:-1]) or {}).get("properties", {})}


def _home(path: KeyPath) -> KeyPath | None:
    """The one place in all of the schema with a key of that name."""
    homes = _homes(folded(str(path[-1])))
    return homes[0] if len(homes) == 1 else None


def _homes(name: str) -> list[KeyPath]:
    return [key for key in (*known_keys(), *((form,) for form in SHORT_FORMS)) if key[-1] == name]


def _renamed(path: KeyPath) -> KeyPath | None:
    """The key of ours for another program's name."""
    name = folded(str(path[-1]))
    if _homes(name) or name not in RENAMES or name in NOTES or name in _NOT_THE_SAME:
        return None
    target = RENAMES[name].split(".")
    if path[0] in _ROLES and target[0] == "actor":
        target[0] = str(path[0])
    elsewhere = path[0] in _ROLES and target[0] not in (path[0], "algorithm")
    return None if elsewhere else tuple(target)


def _slip(path: KeyPath) -> KeyPath | None:
    """The only sibling within two slips; none for a name that means something elsewhere."""
    name = folded(str(path[-1]))
    if _homes(name) or name in RENAMES:
        return None
    close = _close(name, list(_siblings(path)))
    return (*path[:-1], _siblings(path)[close]) if close else None


def _close(word: str, choices: Sequence[str]) -> str | None:
    """The one choice that is at most two slips away; of a short word two slips make any other."""
    near = [choice for choice in choices if edits(word, choice) <= _MOST_SLIPS]
    if len(near) != 1:
        return None
    count = edits(word, near[0])
    return near[0] if count <= 1 or count * 3 <= len(near[0]) else None


def value_fix(path: KeyPath, node: dict[str, Any], value: Any) -> Fix | None:
    """Another spelling for a value of the wrong type: `yes`, a number in quotes, `None`."""
    return _set(path, node, _spelled(node, value)) if isinstance(value, str) else None


def choice_fix(path: KeyPath, node: dict[str, Any], value: Any) -> Fix | None:
    """The choice that a word means: other letters, a slip, another program's word for the same."""
    if not isinstance(value, str):
        return None
    choices, word = node["enum"], value.lower().removeprefix("torch.")
    if word in _NOTHING and None in choices:
        return _set(path, node, (None,))
    names = {choice.lower(): choice for choice in choices if isinstance(choice, str)}
    same = next((names[name] for name in CHOICES.get(word, ()) if name in names), None)
    if word in CHOICES and word not in _SAME_CHOICE:
        return None
    close = same or names.get(word) or names.get(_close(word, list(names)) or "")
    return _set(path, node, (close,)) if close else None


def _spelled(node: dict[str, Any], text: str) -> tuple[Any] | None:
    """The value that a text stands for, in a tuple, for it may be null."""
    word = text.strip().lower()
    if word in _NOTHING and accepts(node, "null"):
        return (None,)
    if accepts(node, "boolean") and word in (*_TRUE, *_FALSE):
        return (word in _TRUE,)
    if not _NUMBER.fullmatch(word):
        return None
    number = float(word)
    if accepts(node, "number") and not number.is_integer():
        return (number,)
    return (int(number),) if number.is_integer() and abs(number) < 2**53 else None


def _set(path: KeyPath, node: dict[str, Any], meant: tuple[Any] | None) -> Fix | None:
    if meant is None or not all(isinstance(part, str) for part in path) or violations(node, meant[0]):
        return None
    return Fix("set", dotted(path), meant[0])
