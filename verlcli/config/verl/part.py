"""A Hydra config that is a part of a launch: what it leaves out, other files and the command line set."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from verlcli.config.context import NotKnown
from verlcli.config.problems import Problem
from verlcli.config.verl.run import VerlRun

_MESSAGE = "a part of a config: what other files and the command line set is not seen, and what is missing is no fault"


@dataclass(frozen=True)
class PartOfRun(VerlRun):
    """A launch of which a part is known: keys that it does not set have no known value, not even verl's default."""

    def _get(self, key: str, seen: tuple[str, ...]) -> Any:
        if not self.is_set(key):
            raise NotKnown  # silent: that it is not known is said once, by `note`
        return super()._get(key, seen)

    @property
    def note(self) -> Problem:
        """What is said about the whole file."""
        return Problem("VRL329", "note", "", _MESSAGE).at(self.place)


def as_part(run: VerlRun) -> VerlRun:
    """The same as `PartOfRun`, when it says neither what is trained nor on what, where verl's defaults fit nobody.

    One that builds on a config which could not be read stays as it is: what that one may set is said by itself.
    """
    model = next(key for key in ("actor_rollout_ref.model.path", "model.path", "") if run.tree.has(key) or not key)
    if not model or run.unseen or (run.is_set(model) and run.is_set("data.train_files")):
        return run
    values = {each.name: getattr(run, each.name) for each in fields(run)}
    return PartOfRun(**{**values, "takes_arguments": True})
