"""A command about to run, as builtins and programs are given it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from verlcli.config.shell.items import Assignment, SimpleCommand
from verlcli.config.shell.types import Command, Word

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander
    from verlcli.config.shell.statements import Run
    from verlcli.config.shell.world import World


@dataclass(frozen=True, slots=True)
class Call:
    """A command about to run, with its words expanded."""

    run: Run
    command: SimpleCommand
    expander: Expander
    world: World
    words: tuple[Word, ...]
    declared: tuple[Assignment, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """The words behind the name, as bash runs them with nothing in place of gaps."""
        return [word.text_as_run for word in self.words[1:]]

    def record(self) -> None:
        """Notes the command among those of interest."""
        place = self.expander.source.place(self.command.start)
        self.run.shell.commands.append((self.world.conditions, Command(self.words, place)))
