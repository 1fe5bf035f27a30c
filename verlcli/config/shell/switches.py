"""Variables that a script tests and leaves to whoever starts it: the worlds in which they are chosen otherwise."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.config.shell.parts import Parts, text_as_run
from verlcli.config.shell.types import Gap, Piece, Place
from verlcli.config.shell.world import ALWAYS_SET, Var, World

if TYPE_CHECKING:
    from verlcli.config.shell.source import Source
    from verlcli.config.shell.statements import Run

EQUALITY = re.compile(
    r"""\[\[?[ ]"?\$\{?(?P<name>\w+)(?::?-[^}"]*)?\}?"? (?P<not>!?)==? """
    r"""(?P<quote>["']?)(?P<value>[\w./-]+)(?P=quote) \]\]?""",
    re.ASCII,
)
# Each starts with a letter or a set, which is searched for fast; what stands before it is looked at behind it.
_SET = re.compile(r"[\s;&|({]([A-Za-z_]\w*)(?:\[[^]\n]*\])?\+?=", re.ASCII)
_FILLED = re.compile(r"for(?<!\wfor)[ \t]+(\w+)|read(?<!\wread)[ \t]+([^\n;|]+)", re.ASCII)
_ITEM = re.compile(r"(?:^|;;)[ \t]*\(?([\w./-]+(?:[ \t]*\|[ \t]*[\w./-]+)*)[ \t]*\)", re.MULTILINE)
# Up to its end, or to another one inside.
_CASE = re.compile(
    r"case(?<!\wcase)[ \t]+\"?\$\{?(?P<name>\w+)(?::?-[^}\"\n]*)?\}?\"?[ \t]+in\b(?P<items>.*?)\b(?:esac|case)\b",
    re.ASCII | re.DOTALL,
)
_MOST_VALUES = 6
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def other_choices(run: Run, world: World, said: str, place: Place) -> list[World]:
    """Worlds after the first test of variables that nobody sets, `said`, in which they were set to something else.

    None where the test says nothing of such variables, and in a world that was made in this way itself.
    """
    match = EQUALITY.fullmatch(said)
    if match:
        values = other_values(run.source, world, match["name"] if match["name"] in world.asked else "")
        return [
            _other(world, {match["name"]}, (Piece(text, place),), (text == match["value"]) != bool(match["not"]))
            for text in values
        ]
    names = {name for name in world.asked if is_left_open(run.source, world, name, defaults=False)}
    if world.switched or not names or names != world.asked:
        return []
    world.settled |= names
    return [_other(world, names, (), world.status == "no", place)]


def other_values(source: Source, world: World, name: str) -> list[str]:
    """Texts that the script compares a variable with, where nothing has settled yet that it is another one."""
    if world.switched or not is_left_open(source, world, name, defaults=True):
        return []
    world.settled |= {name}
    variable = world.variables.get(name)
    own = text_as_run(variable.scalar()) if variable else ""
    return [text for text in _compared_with(source, name) if text != own]


def other_case(world: World, name: str, text: str, place: Place) -> World:
    """The world in which a variable that a `case` asks for was set to `text`."""
    return _other(world, {name}, (Piece(text, place),), True)


def _other(world: World, names: set[str], parts: Parts, holds: bool, place: Place | None = None) -> World:
    other = world.copy()
    other.switched, other.status = True, "yes" if holds else "no"
    for name in names:
        choose(other, name, parts or (_chosen(name, place or Place(1, 1)),))
    return other


def as_if_set(run: Run, world: World, place: Place) -> World:
    """The world with a value for every variable that the last test asked for, and that nobody sets."""
    world.settled -= world.asked
    for name in world.asked:
        if is_left_open(run.source, world, name, defaults=False):
            choose(world, name, (_chosen(name, place),))
    return world


def _compared_with(source: Source, name: str) -> list[str]:
    """Texts that the script compares a variable with."""
    key = ("compared", name)
    if key not in source.cache:
        found = [match["value"] for match in EQUALITY.finditer(source.text) if match["name"] == name]
        for case in _CASE.finditer(source.text):
            if case["name"] == name:
                found += [text for line in _ITEM.findall(case["items"]) for text in re.split(r"[ \t|]+", line)]
        source.cache[key] = list(dict.fromkeys(found))[:_MOST_VALUES]
    texts: list[str] = source.cache[key]
    return texts


def is_left_open(source: Source, world: World, name: str, defaults: bool) -> bool:
    """Whether nothing in the script sets a variable, or (`defaults`) nothing but a default such as `${1:-small}`."""
    variable = world.variables.get(name)
    if not _NAME.fullmatch(name) or name in ALWAYS_SET or name in world.settled:
        return False
    if variable is None:
        return name not in _set_names(source)
    parts = variable.scalar()
    return defaults and bool(parts) and all(isinstance(part, Piece) and part.default for part in parts)


def choose(world: World, name: str, parts: Parts) -> None:
    """Gives a variable the value that somebody chose, also where its default is a part of others already."""
    old = world.variables.get(name, Var())
    defaults = {part.place for part in old.scalar() if isinstance(part, Piece) and part.default}
    world.put(name, replace(old, parts=parts, items=None))
    for other, variable in list(world.variables.items()) if defaults else ():
        values = (variable.parts,) if variable.items is None else tuple(variable.items.values())
        if any(_is_default(part, defaults) for value in values for part in value):
            items = variable.items and {key: _with(each, defaults, parts) for key, each in variable.items.items()}
            world.variables[other] = replace(variable, parts=_with(variable.parts, defaults, parts), items=items)


def _with(parts: Parts, defaults: set[Place], chosen: Parts) -> Parts:
    return tuple(each for part in parts for each in (chosen if _is_default(part, defaults) else (part,)))


def _is_default(part: Piece | Gap, defaults: set[Place]) -> bool:
    return isinstance(part, Piece) and part.default and part.place in defaults


def _chosen(name: str, place: Place) -> Gap:
    return Gap(f"${name} is set by whoever starts the script", place, name, "runtime")


def _set_names(source: Source) -> frozenset[str]:
    """Every name that something in the text assigns."""
    if "set" not in source.cache:
        names = [name for groups in _FILLED.findall(source.text) for group in groups for name in group.split()]
        source.cache["set"] = frozenset([*names, *_SET.findall(_FILLED.sub("", f"\n{source.text}"))])
    found: frozenset[str] = source.cache["set"]
    return found
