"""What reading a launch script gives: words with their places, launches, findings. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from verlcli.config.quick import cached_property, dataclass

# "refused": bash does not run the command, for it does not read this part of it.
GapKind = Literal["unset", "command", "runtime", "arguments", "unsupported", "refused"]
Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands in the script; both numbers count from 1, the column in characters."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


def moved(place: Place, text: str) -> Place:
    """The place just behind `text`, which stands at `place`."""
    lines = text.count("\n")
    if not lines:
        return Place(place.line, place.column + len(text))
    return Place(place.line + lines, len(text) - text.rfind("\n"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of a word's text: `place` is where it was written, `variable` the name it came through, if any."""

    text: str
    place: Place
    variable: str | None = None
    via: tuple[str, ...] = ()  # every name it came through, the one written in the word first
    default: bool = False  # stands behind `:-`: whoever starts the script may choose another text


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of a word that only a run can tell: a command's output, a variable of the machine or of nobody."""

    reason: str
    place: Place
    variable: str | None = None
    kind: GapKind = "unsupported"
    many: bool = False  # stands for any number of an array's items


@dataclass(frozen=True)
class Word:
    """One word as a program receives it, in parts; what many ask of it is worked out once."""

    place: Place
    parts: tuple[Piece | Gap, ...]
    quoted: bool = False  # some of it stands in quotes, so that it stays a word when empty

    @property
    def text(self) -> str | None:
        """The whole text; None when a part of it cannot be known."""
        return None if self.gaps else self.text_as_run

    @cached_property
    def text_as_run(self) -> str:
        """The text with nothing in the place of every gap: bash's own reading of a variable that is not set."""
        return "".join([part.text for part in self.parts if isinstance(part, Piece)])

    @property
    def known(self) -> bool:
        """Whether no part of it is a gap."""
        return not self.gaps

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """The parts that cannot be known."""
        return tuple([part for part in self.parts if isinstance(part, Gap)])

    def place_of(self, offset: int) -> Place:
        """Where the character at `offset` of `text_as_run` was written; the word's own place beyond its end."""
        for part in self.parts:
            if isinstance(part, Piece):
                if offset < len(part.text):
                    return moved(part.place, part.text[:offset])
                offset -= len(part.text)
        return self.place


@dataclass(frozen=True, slots=True)
class Launch:
    """One python launch: the argv that bash would hand to the program, and what stands around it."""

    words: tuple[Word, ...]
    place: Place
    environment: Mapping[str, Word] = field(default_factory=dict)  # exported, and `X=1 python3 …`
    variables: Mapping[str, Word] = field(default_factory=dict)  # every variable at that point
    condition: str = ""  # the undecided branches it stands in: "if [ $NODE_RANK -eq 0 ]"
    submitted: bool = False  # behind `ray job submit … --`
    runtime_env: Mapping[str, Word] = field(default_factory=dict)  # long options of `ray job submit` itself
    piped_to: str | None = None  # first program of the next part of the pipeline: "tee"
    pipefail: bool = False
    in_background: bool = False
    takes_arguments: bool = False  # the script's own "$@" is part of it, or of what was meant for it
    switched: bool = False  # only where somebody sets a variable that the script tests and leaves open
    wrapper: tuple[Word, ...] = ()  # what stands before python: `srun --nodes=2`, `ray job submit … --`
    directives: Mapping[str, Word] = field(default_factory=dict)  # of the Slurm job that it is a part of
    lost: tuple[Word, ...] = ()  # meant for the launch, and no words of it: behind a line that ends it too early


@dataclass(frozen=True, slots=True)
class Command:
    """Another command of interest: `ray start`, `pip install`, `source`, `cd`, `export`."""

    words: tuple[Word, ...]
    place: Place
    condition: str = ""

    @property
    def name(self) -> str:
        """The program's name, without its folder; empty when it cannot be known."""
        return (self.words[0].text or "").rpartition("/")[2] if self.words else ""


@dataclass(frozen=True, slots=True)
class ShellFinding:
    """Something in the script that does not do what it looks like; `kind` names it for machines.

    `meant` and `received` are a value as written and as the program gets it, where bash takes quotes off.
    """

    kind: str
    place: Place
    message: str
    suggestion: str | None = None
    severity: Severity = "warning"
    meant: str = ""
    received: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """All that was read from one script."""

    launches: tuple[Launch, ...]
    findings: tuple[ShellFinding, ...] = ()
    directives: Mapping[str, Word] = field(default_factory=dict)  # `#SBATCH --nodes=2` as "nodes"
    commands: tuple[Command, ...] = ()
    errors: tuple[Place, ...] = ()  # where the script is not bash
