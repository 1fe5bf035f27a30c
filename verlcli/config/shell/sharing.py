"""Expansions that worlds share: made once for all in which the variables they name have the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from verlcli.config.quick import dataclass
from verlcli.config.shell.items import Expanded, Lit, Param, Template, Unread

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander
    from verlcli.config.shell.parts import Parts
    from verlcli.config.shell.types import Gap, Place, Word
    from verlcli.config.shell.world import Var, World

_Made = TypeVar("_Made", "tuple[Word, ...]", "tuple[Parts, ...]")
_MOST = 8  # values that one template is remembered for: a loop gives it new ones in every pass


@dataclass(frozen=True, slots=True)
class Once:
    """One expansion: the variables that it came from, what came of it, and what it left behind in the expander."""

    values: tuple[tuple[str, Var | None], ...]
    unread: str
    made: tuple[Word, ...] | tuple[Parts, ...]
    steps: int
    dropped: tuple[Gap, ...]
    empties: tuple[tuple[str, Place], ...]

    def holds(self, world: World) -> bool:
        """Whether the world gives every variable the value it had."""
        variables = world.variables
        for name, value in self.values:
            now = variables.get(name)
            if now is not value and now != value:
                return False
        return self.unread == world.unread


def shared(expander: Expander, expanded: Expanded, templates: Iterable[Template], make: Callable[[], _Made]) -> _Made:
    """What `make` gives, which expands `templates` and nothing else; `expanded` remembers it for other worlds."""
    world, shell = expander.world, expander.shell
    if not shell.several:
        return make()
    for once in expanded:
        if once.holds(world):
            shell.charge(once.steps)
            expander.dropped += once.dropped
            expander.empties += once.empties
            return once.made  # type: ignore[return-value]
    names = _named(templates)
    if names is None:
        return make()
    values = tuple([(name, world.variables.get(name)) for name in names])
    steps, dropped, empties = shell.steps, len(expander.dropped), len(expander.empties)
    made = make()
    left = tuple(expander.dropped[dropped:]), tuple(expander.empties[empties:])
    expanded.append(Once(values, world.unread, made, shell.steps - steps, *left))
    del expanded[:-_MOST]
    return made


def _named(templates: Iterable[Template]) -> set[str] | None:
    """Variables whose values alone decide what templates expand to; None where more does, or where one gets set."""
    found = set[str]()
    for items in templates:
        for item in items:
            if isinstance(item, Param) and _only_reads(item):
                found.update((item.name, "IFS"))
                inner = _named((item.arg, item.second)) if item.arg or item.second else ()
                if inner is None:
                    return None
                found.update(inner)
            elif not isinstance(item, (Lit, Unread)):
                return None
    return found


def _only_reads(param: Param) -> bool:
    """Whether a parameter is a variable by its own name, and its operator neither sets it nor counts."""
    whole = param.index is None or [getattr(item, "text", "") for item in param.index] in (["@"], ["*"])
    return whole and not param.indirect and param.op not in ("=", ":=", ":") and param.name.isidentifier()
