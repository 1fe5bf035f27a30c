"""What one reading collects and how much it may cost, shared by all worlds; a command about to run in one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.config.shell.items import Assignment, SimpleCommand, Subst
from verlcli.config.shell.parts import Parts, first_gap, stripped
from verlcli.config.shell.source import without_marks
from verlcli.config.shell.types import Command, Gap, Launch, Place, Severity, ShellFinding, Word
from verlcli.config.shell.world import Var, World

if TYPE_CHECKING:
    from verlcli.config.shell.expand import Expander
    from verlcli.config.shell.source import Source
    from verlcli.config.shell.statements import Run

MOST_STEPS = 60_000  # words, parts and statements that are followed in one script
DEEPEST = 30  # statements, functions and substitutions inside each other
MOST_FINDINGS = 200
MOST_NAMES = 200  # variables that a misspelling is looked for among
_ROUNDED_UP = re.compile(r"-\s*1\s*\)\s*/")  # `(a + b - 1) / b`, where the remainder is meant to go
_ALIKE, _LETTERS_APART = 0.8, 2  # of a misspelt name and the one that is meant
MOST_CHOICES = 4  # outputs of one `$(…)`, each followed in a world of its own


class OutOfStepsError(Exception):
    """The script does more than is followed."""


class Shell:
    """One reading of one script."""

    def __init__(self, name: str = "", folder: Path | None = None) -> None:
        self.name, self.folder = name, folder
        self.findings: dict[tuple[str, Place, str], ShellFinding] = {}
        self.launches: list[tuple[tuple[str, ...], Launch]] = []
        self.commands: list[tuple[tuple[str, ...], Command]] = []
        self.errors: list[Place] = []
        self.zsh = False  # what the script's first line says it is for
        self.steps = 0
        self.depth = 0
        self.piped_to: str | None = None
        self.in_background = False
        self.status_used = False  # inside `a && b`, `if a`: somebody looks at how the command ends
        self.several = False  # whether the statements that run now run in more than one world
        self.sourced: set[Path] = set()
        self.around: tuple[Word, ...] = ()  # of the shells that the statements are handed to: `srun bash -c`
        self.written: dict[str, tuple[Word, World]] = {}  # scripts that this one writes, by the file's name
        self.started: set[str] = set()  # those of them that it runs itself
        self.directives: dict[str, Word] = {}
        # Outputs of a `$(…)` by the conditions they come under, and the one that a world has settled on.
        self.offered: dict[tuple[int, int], dict[tuple[str, ...], Parts]] = {}
        self.forced: dict[tuple[int, int], Parts] = {}

    def charge(self, steps: int) -> None:
        """Counts work. Raises `OutOfStepsError` at the limit."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise OutOfStepsError

    def find(
        self, kind: str, place: Place, message: str, suggestion: str | None = None, severity: Severity = "warning"
    ) -> None:
        """Adds a finding, once."""
        self.add(ShellFinding(kind, place, message, suggestion, severity))

    def add(self, finding: ShellFinding) -> None:
        """Adds a finding, once."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.setdefault((finding.kind, finding.place, finding.message), finding)

    def limit(self, place: Place, what: str) -> None:
        """Adds the finding that something is beyond what is followed."""
        message = f"{what}: what comes out of it is not known"
        self.find("limit", place, message, "write it in a simpler way, or check this part yourself", "note")

    def divided(self, place: Place, text: str, left: int, right: int, operator: str) -> None:
        """Told of every division; one that leaves a remainder is worth a word."""
        if operator != "/" or left % right == 0 or _ROUNDED_UP.search(text):
            return
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        severity: Severity = "warning" if quotient == 0 else "note"
        message = f"{left} / {right} is {quotient} here: bash cuts off the remainder ({text})"
        self.find(
            "arithmetic_zero", place, message, "choose numbers that divide, or round up: $(((a + b - 1) / b))", severity
        )

    def division_by_zero(self, place: Place, text: str, pair: str) -> None:
        """Adds the finding that bash stops at a division by zero."""
        message = f"{pair} is a division by zero: bash stops this command ({text})"
        self.find("division_by_zero", place, message, "set the divisor before this line", "error")

    def unset(self, place: Place, name: str, effect: str, world: World, severity: Severity = "warning") -> None:
        """Adds the finding that a variable has no value, and what comes of it."""
        if len(self.findings) < MOST_FINDINGS:
            self.find("unset", place, f"${name} has no value: {effect}", _advice_for_unset(name, world), severity)

    def substitute(self, source: Source, item: Subst, world: World) -> Parts:
        """What the statements of `$(…)` print, as far as that can be known."""
        from verlcli.config.shell.statements import run_text

        if (key := (id(source), item.at)) in self.forced:
            return self.forced[key]
        inner = world.copy()
        inner.output, inner.flow = (), ""
        before, self.piped_to = self.piped_to, None
        worlds = run_text(self, source, item.start, item.end, inner)
        self.piped_to = before
        outputs = {result.conditions: stripped(result.output or ()) for result in worlds}
        distinct = list(dict.fromkeys(outputs.values()))
        if len(distinct) == 1:
            return distinct[0]
        if 1 < len(distinct) == len(outputs) <= MOST_CHOICES and not any(first_gap(parts) for parts in distinct):
            self.offered[key] = outputs
        return (Gap(f"the output of $({_short(source, item)})", source.place(item.at), None, "command"),)


def _short(source: Source, item: Subst) -> str:
    return shortened(source.text[item.start : item.end])


def shortened(text: str, most: int = 100) -> str:
    """The text on one line, cut to `most` characters."""
    line = without_marks(" ".join(text[: most * 4].split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def _advice_for_unset(name: str, world: World) -> str:
    """What to write for a variable that nobody sets."""
    if name.isdigit():
        return f"pass argument {name}, or write ${{{name}:?}} so that bash stops without it"
    near = _misspelt(name, world)
    if near:
        return f"did you mean ${near}?"
    return f"set {name} before this line, or write ${{{name}:?set {name}}} so that bash stops without it"


def _misspelt(name: str, world: World) -> str | None:
    """The variable with a value that `name` is likely a slip of: $MODEL_PATH for $MODEL_PTH, not $VLLM_TP for $LLM."""
    named = list(world.variables.items())[:MOST_NAMES]
    folded = {
        other.lower(): other
        for other, variable in named
        if other != name and _has_value(variable) and abs(len(other) - len(name)) <= _LETTERS_APART
    }
    near = get_close_matches(name.lower(), folded, n=1, cutoff=_ALIKE)
    return folded[near[0]] if near else None


def _has_value(variable: Var) -> bool:
    parts = variable.scalar() or next(iter((variable.items or {}).values()), ())
    return bool(parts) and not any(isinstance(part, Gap) and part.kind == "unset" for part in parts)


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
