"""What a rule about a verl launch is: a function of the launch that yields verdicts, and where it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from packaging.specifiers import SpecifierSet

from verlcli.config.context import NotKnown
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
        return _code_of(self.check)

    def holds_for(self, run: VerlRun) -> bool:
        """Whether the rule says anything about this launch."""
        if self.engines and run.engine not in self.engines:
            return False
        if self.entries and (run.entry or run.tree.entry).partition(":")[0] not in self.entries:
            return False
        # "main" is newer than every release.
        version = "999" if run.version == "main" else run.version
        return not self.versions or _is_among(version, self.versions)

    def verdicts(self, run: VerlRun) -> Iterator[Verdict]:
        """What the rule says, no more than a warning where the launched program may do otherwise.

        Raises:
            NotKnown: a fact is missing; all verdicts that do not need it came before.
        """
        verdicts, unknown = run.once(self.check, lambda: self._said(run))
        yield from verdicts
        if unknown is not None:
            raise NotKnown(unknown)

    def _said(self, run: VerlRun) -> tuple[tuple[Verdict, ...], str | None]:
        """Verdicts, and what would have to be known for more."""
        verdicts = list[Verdict]()
        try:
            for verdict in self.check(run):
                unset = not any(run.is_set(key) for key in verdict.keys)
                doubtful = not run.is_of_verl or (run.takes_arguments and unset)
                less = doubtful and verdict.severity == "error"
                verdicts.append(replace(verdict, severity="warning") if less else verdict)
        except NotKnown as fact:
            return tuple(verdicts), fact.need
        return tuple(verdicts), None


@cache
def _code_of(check: Check) -> str:
    return (check.__doc__ or "").partition(":")[0].strip()


@cache
def _is_among(version: str, versions: str) -> bool:
    return SpecifierSet(versions).contains(version)


def rule(
    versions: str = "", engines: tuple[str, ...] = (), entries: tuple[str, ...] = ()
) -> Callable[[Check], VerlRule]:
    """Make a rule of a function; see `VerlRule`."""
    return lambda check: VerlRule(check, versions, engines, entries)
