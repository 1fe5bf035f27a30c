"""What a rule about a verl launch is: a function of the launch that yields verdicts, and where it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet

from verlcli.config.rules._base import Verdict
from verlcli.config.verl.run import VerlRun

Check = Callable[[VerlRun], Iterator[Verdict]]


@dataclass(frozen=True, slots=True)
class VerlRule:
    """A rule with the launches that it holds for.

    Attributes:
        check: yields the verdicts; its docstring is what `verl explain CODE` prints.
        versions: of verl, as a version specifier; empty: all.
        engines: training engines; empty: all.
        entries: entry points of verl; empty: all that train by RL.
    """

    check: Check
    versions: str = ""
    engines: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """Code of the rule, the first word of its docstring."""
        return (self.check.__doc__ or "").partition(":")[0].strip()

    def holds_for(self, run: VerlRun) -> bool:
        """Whether the rule says anything about this launch."""
        if self.engines and run.engine not in self.engines:
            return False
        if self.entries and (run.entry or run.tree.entry).partition(":")[0] not in self.entries:
            return False
        # "main" is newer than every release.
        version = "999" if run.version == "main" else run.version
        return not self.versions or SpecifierSet(self.versions).contains(version)

    def verdicts(self, run: VerlRun) -> Iterator[Verdict]:
        """What the rule says, no more than a warning where the launched program may do otherwise.

        Raises:
            NotKnown: a fact is missing; all verdicts that do not need it came before.
        """
        for verdict in self.check(run):
            unset = not any(run.is_set(key) for key in verdict.keys)
            doubtful = not run.is_of_verl or (run.takes_arguments and unset)
            yield replace(verdict, severity="warning") if doubtful and verdict.severity == "error" else verdict


def rule(
    versions: str = "", engines: tuple[str, ...] = (), entries: tuple[str, ...] = ()
) -> Callable[[Check], VerlRule]:
    """Make a rule of a function; see `VerlRule`."""
    return lambda check: VerlRule(check, versions, engines, entries)
