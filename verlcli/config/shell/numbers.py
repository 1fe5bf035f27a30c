"""Variables of a world as arithmetic sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.parts import first_gap, text_as_run
from verlcli.config.shell.types import Gap, Piece, Place
from verlcli.config.shell.world import Parts, Var, World, at_run_time

if TYPE_CHECKING:
    from verlcli.config.shell.shell import Shell


class UnknownNumberError(BadArithmeticError):
    """A number that only a run can tell."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.reason)
        self.gap = gap


class Numbers:
    """Reads and sets the variables of one world; a variable that is not set counts as 0."""

    def __init__(self, world: World, place: Place, shell: Shell | None = None) -> None:
        self.world, self.place, self.shell = world, place, shell

    def get(self, name: str) -> str:
        """Text of a variable or an array's item. Raises `UnknownNumberError` when only a run can tell it."""
        base, _, index = name.rstrip("]").partition("[")
        variable = self.world.variables.get(base)
        if variable is None:
            return self._missing(base)
        parts = variable.scalar()
        if index:
            key = index if variable.keyed else evaluate(index, self)
            parts = (variable.items or {0: variable.parts}).get(key, ())
        gap = first_gap(parts)
        if gap and gap.kind != "unset":
            raise UnknownNumberError(gap)
        return text_as_run(parts)

    def _missing(self, name: str) -> str:
        if at_run_time(name):
            raise UnknownNumberError(Gap(f"${name} is set by the machine", self.place, name, "runtime"))
        if self.shell:
            self.shell.unset(self.place, name, "it counts as 0", self.world)
        return ""

    def put(self, name: str, value: int) -> None:
        """Sets a variable or an array's item to a number."""
        base, _, index = name.rstrip("]").partition("[")
        old = self.world.variables.get(base, Var())
        parts: Parts = (Piece(str(value), self.place),)
        if index:
            key: int | str = index if old.keyed else evaluate(index, self)
            self.world.put(base, Var((), {**(old.items or {}), key: parts}, old.exported, old.integer, old.keyed))
        else:
            self.world.put(base, Var(parts, None, old.exported, old.integer))
