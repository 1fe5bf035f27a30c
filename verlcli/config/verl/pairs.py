"""What a pair of keys is: one or more of ours and the keys of verl that mean the same, with the values' translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from verlcli.facts.verl import KeyTree

ABSENT: Any = object()  # no value on the other side: the key is left out there


@dataclass(frozen=True, slots=True)
class View:
    """A config as the pairs see it.

    Attributes:
        tree: verl's keys for the chosen version and engine.
        values: the complete config of ours, nested.
        said: whether somebody set a key of ours (in a file, the environment, `-o` or a flag).
        based: whether a key's value comes from the preset of verl's defaults, and so means verl's own default.
        kept: what stands under `verl:`, by verl's keys.
    """

    tree: KeyTree
    values: Mapping[str, Any]
    said: Callable[[str], bool]
    based: Callable[[str], bool]
    kept: Mapping[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """Value of a dotted key of ours; None inside a section that is not there."""
        found: Any = self.values
        for part in key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found

    @property
    def has_critic(self) -> bool:
        """Whether the run trains a critic."""
        estimator = self.kept.get("algorithm.adv_estimator")
        wanted = self.value("algorithm.name") == "ppo" if estimator is None else estimator == "gae"
        enabled = self.kept.get("critic.enable")
        return enabled if isinstance(enabled, bool) else wanted


@dataclass(frozen=True, slots=True)
class Given:
    """One key of verl with its value.

    Attributes:
        key: of verl.
        value: as verl understands it.
        ours: the key of ours that it comes from.
        follows: it goes along with another key of verl, and gives way to what `verl:` says.
    """

    key: str
    value: Any
    ours: str
    follows: bool = False


class Pair(Protocol):
    """What `Field` and the pairs of several keys have in common."""

    @property
    def ours(self) -> tuple[str, ...]:
        """Keys of ours."""

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """Keys of verl in this version and for this engine; empty where verl has none."""

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """What verl has to be told, `so_far` being what the pairs before have told it."""

    def carries(self, view: View) -> bool:
        """Whether verl does what our keys say, told so or by itself."""

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Our keys for what a launch says (`said`, verl's keys); without those that do not translate."""


Encode = Callable[[Any, View], Any]
Decode = Callable[[Any], Any]


def as_it_is(value: Any, view: View) -> Any:
    """Both sides write it the same way."""
    return value


def same(value: Any) -> Any:
    """Both sides write it the same way."""
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """One key of ours and one of verl.

    Attributes:
        key: ours.
        verl: verl's names, newest first; the first one that the version has is meant.
        megatron: its names under Megatron; None: the same, empty: there is none.
        encode, decode: the value's translation; ABSENT where there is no such value on the other side.
        others: further keys of ours that take part in the value.
        only_said: verl's own default stands unless somebody set our key.
        free: the key stands in no tree, but verl reads it.
        follow: further keys of verl that get the same value unless `verl:` says something else.
        note: for the table in the documentation: how values translate.
    """

    key: str
    verl: tuple[str, ...]
    megatron: tuple[str, ...] | None = None
    encode: Encode = as_it_is
    decode: Decode = same
    others: tuple[str, ...] = ()
    only_said: bool = False
    free: bool = False
    follow: Callable[[View], tuple[str, ...]] = lambda view: ()
    note: str = ""

    @property
    def ours(self) -> tuple[str, ...]:
        """Keys of ours."""
        return (self.key, *self.others)

    def keys(self, tree: KeyTree) -> tuple[str, ...]:
        """The key of verl in this version and for this engine; empty where verl has none."""
        names = self.megatron if self.megatron is not None and tree.engine == "megatron" else self.verl
        return next(((name,) for name in names if self.free or tree.has(name)), ())

    def give(self, view: View, so_far: Mapping[str, Any]) -> list[Given]:
        """Nothing, or the key and those that follow it."""
        speakers = self._speakers(view)
        if not self.keys(view.tree) or all(view.based(key) for key in speakers):
            return []
        (name,) = self.keys(view.tree)
        value = self.encode(view.value(self.key), view)
        source = next((key for key in speakers if view.said(key)), None)
        if value is ABSENT or not (source or self._differs(view, name, value, so_far)):
            return []
        follow = [key for key in self.follow(view) if self.free or view.tree.has(key)]
        return [Given(name, value, source or self.key), *(Given(key, value, self.key, True) for key in follow)]

    def carries(self, view: View) -> bool:
        """Whether verl has the key, and a word for the value."""
        return bool(self.keys(view.tree)) and self.encode(view.value(self.key), view) is not ABSENT

    def take(self, said: Mapping[str, Any], tree: KeyTree) -> dict[str, Any]:
        """Our key with its value, or nothing."""
        found = [self.decode(said[name]) for name in self.keys(tree) if name in said]
        return {self.key: found[0]} if found and found[0] is not ABSENT else {}

    def _speakers(self, view: View) -> tuple[str, ...]:
        """The keys of ours that decide; a value that the preset of verl's defaults fixes needs no others."""
        fixed = view.based(self.key) and view.value(self.key) is not None
        return (self.key,) if fixed else self.ours

    def _differs(self, view: View, name: str, value: Any, so_far: Mapping[str, Any]) -> bool:
        if self.only_said or not view.tree.has(name):
            return not self.only_said  # what stands in no tree differs from it
        default = view.tree.value(name, so_far)
        return not (equal(default, value) or equal(self.decode(default), view.value(self.key)))


def equal(one: Any, other: Any) -> bool:
    """Same value to verl: 1 is 1.0, but True is not 1."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(left, right) for left, right in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
