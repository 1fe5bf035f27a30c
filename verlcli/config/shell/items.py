"""What a word of bash is made of before any of it is evaluated. Offsets are those of the source's text."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from verlcli.config.quick import dataclass

if TYPE_CHECKING:
    from verlcli.config.shell.sharing import Once


@dataclass(frozen=True, slots=True)
class Lit:
    """Text that stands for itself."""

    text: str
    at: int
    quoted: bool


@dataclass(frozen=True, slots=True)
class Param:
    """`$X`, `${X:-d}`, `${a[@]}`, `${#X}`, `${!X}`."""

    name: str
    at: int
    quoted: bool
    op: str = ""
    arg: Template = ()
    second: Template = ()  # behind the `/` of `${X/a/b}`, behind the second `:` of `${X:1:2}`
    index: Template | None = None
    length: bool = False
    indirect: bool = False
    bare: bool = False  # `$X` without braces: a name that text behind it makes longer


@dataclass(frozen=True, slots=True)
class Subst:
    """`$(…)` and backquotes: the statements from `start` to `end`."""

    start: int
    end: int
    at: int
    quoted: bool


@dataclass(frozen=True, slots=True)
class Arith:
    """`$((…))`."""

    body: Template
    at: int
    quoted: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """A form that is not followed, such as `<(…)`."""

    reason: str
    at: int
    quoted: bool
    refused: bool = False  # bash itself does not read it: `${a.b}`


Item = Lit | Param | Subst | Arith | Unread
Template = tuple[Item, ...]
Expanded = list["Once"]  # what a template expanded to, in the worlds that asked


@dataclass(frozen=True, slots=True)
class RawWord:
    """A word as written, from `start` to `end`."""

    start: int
    end: int
    items: Template
    expanded: Expanded = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, `name+=value`, `name[index]=value` or `name=(…)`."""

    name: str
    at: int
    value_at: int
    value: Template
    items: tuple[RawWord, ...] | None = None
    index: Template | None = None
    append: bool = False
    expanded: Expanded = field(default_factory=list, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Redirect:
    """`> file`, `2>&1`, `<<< text`, or a here-document with its body."""

    op: str
    target: Template
    at: int


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Assignments, words and redirections up to the end of one command; `end` is the offset behind it."""

    start: int
    end: int
    assignments: tuple[Assignment, ...]
    words: tuple[RawWord | Assignment, ...]  # an assignment only behind `export`, `local` and their like
    redirects: tuple[Redirect, ...]
