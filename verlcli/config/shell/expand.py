"""Items of a word in one world -> its text, as bash would expand it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from verlcli.config.shell.arithmetic import BadArithmeticError, DivisionByZeroError, evaluate
from verlcli.config.shell.items import Arith, Lit, Param, RawWord, Subst, Template, Unread
from verlcli.config.shell.parameters import all_items, expand_parameter
from verlcli.config.shell.parts import LONGEST_TEXT, MOST_PARTS, Parts, first_gap, text_as_run
from verlcli.config.shell.patterns import TooHardError
from verlcli.config.shell.sharing import shared
from verlcli.config.shell.splitting import (
    DEFAULT_IFS,
    Segment,
    TooManyWordsError,
    braced,
    in_one,
    split_fields,
    spread,
)
from verlcli.config.shell.types import Gap, GapKind, Piece, Place, Word
from verlcli.config.shell.world import Numbers, UnknownNumberError, World

if TYPE_CHECKING:
    from verlcli.config.shell.shell import Shell
    from verlcli.config.shell.source import Source

_TOO_LONG = "a value longer than is followed"


class Expander:
    """Expands the words of one command; remembers what vanished on the way."""

    def __init__(self, shell: Shell, source: Source, world: World) -> None:
        self.shell, self.source, self.world = shell, source, world
        self.dropped: list[Gap] = []
        self.empties: list[tuple[str, Place]] = []  # variables that are set to nothing, where they were used

    def words(self, raw: RawWord) -> list[Word]:
        """The words that one written word becomes: none, one or several."""
        if not self.shell.several:
            return self._words(raw)
        return list(shared(self, raw.expanded, (raw.items,), lambda: tuple(self._words(raw))))

    def _words(self, raw: RawWord) -> list[Word]:
        items = raw.items
        alone = len(items) == 1 and not self.source.composed
        if alone and isinstance(only := items[0], Lit) and "{" not in only.text and only.text[:1] != "~":
            place = self.source.place(raw.start)
            piece = Piece(only.text, place if only.at == raw.start else self.source.place(only.at))
            self.shell.charge(1)
            return [Word(place, (piece,) if only.text else (), only.quoted)]
        try:
            templates = braced(items)
        except TooManyWordsError:
            place, what = self.source.place(raw.start), "a brace expansion with more words than are followed"
            self.shell.limit(place, what)
            return [Word(place, (Gap(what, place, None, "unsupported"),))]
        return [word for template in templates for word in self._fields(template, raw.start)]

    def _fields(self, template: Template, start: int) -> list[Word]:
        segments = self.segments(template)
        many = any(isinstance(item, Param) and all_items(item) for item in template)
        words, dropped = split_fields(segments, self.source.place(start), self._separators(), apart=many)
        self.dropped += dropped
        self.shell.charge(len(words))
        return words

    def _separators(self) -> str:
        ifs = self.world.variables.get("IFS")
        return text_as_run(ifs.scalar()) if ifs else DEFAULT_IFS

    def text(self, items: Template) -> Parts:
        """The value that an assignment, a here-document or a `case` takes: expanded, not split, items in one."""
        # Nothing is split here, so that `*` joins with the first separator in quotes and without.
        whole = tuple(
            [replace(item, quoted=True) if isinstance(item, Param) and all_items(item) else item for item in items]
        )
        return self.capped(in_one(self.segments(whole)), items[0].at if items else 0)

    def capped(self, parts: Parts, at: int) -> Parts:
        """The parts, or a gap in place of more of them than are followed."""
        length = sum([len(part.text) for part in parts if isinstance(part, Piece)])
        self.shell.charge(len(parts) + length // 64)
        for part in parts:
            if isinstance(part, Gap) and part.reason == _TOO_LONG:
                return (part,)
        if length <= LONGEST_TEXT and len(parts) <= MOST_PARTS:
            return parts
        place = self.source.place(at)
        self.shell.limit(place, "a value longer than is followed")
        return (Gap(_TOO_LONG, place, None, "unsupported"),)

    def pattern(self, items: Template) -> list[tuple[str, bool]]:
        """Runs of a pattern, each with whether it is literal. Raises `TooHardError` when a part of it is unknown."""
        runs = []
        for segment in self.segments(items):
            if segment is None or isinstance(segment.part, Gap):
                raise TooHardError("a pattern with a part that cannot be known")
            runs.append((segment.part.text if segment.part else "", segment.quoted))
        return runs

    def segments(self, items: Template) -> list[Segment | None]:
        """Every item's parts in order; None where a word ends inside `"${a[@]}"`."""
        out: list[Segment | None] = []
        self.shell.charge(len(items))
        for number, item in enumerate(items):
            if isinstance(item, Lit):
                out += self._literal(item, first=number == 0)
            else:
                out += self._evaluated(item)
        return out

    def _literal(self, item: Lit, first: bool) -> list[Segment | None]:
        if first and not item.quoted and (item.text == "~" or item.text.startswith("~/")):
            place = self.source.place(item.at)
            home = Gap("the home folder", place, "HOME", "runtime")
            rest = Piece(item.text[1:], Place(place.line, place.column + 1))
            return [Segment(home, True), Segment(rest if rest.text else None, False)]
        parts = self.source.parts(item.text, item.at)
        return [Segment(part, item.quoted) for part in parts] or [Segment(None, item.quoted)]

    def _evaluated(self, item: Param | Subst | Arith | Unread) -> list[Segment | None]:
        if isinstance(item, Param):
            return expand_parameter(self, item)
        if isinstance(item, Subst):
            parts = self.shell.substitute(self.source, item, self.world)
        elif isinstance(item, Arith):
            parts = self.arithmetic(item.body, item.at)
        else:
            kind: GapKind = "refused" if item.refused else "unsupported"
            parts = (Gap(item.reason, self.source.place(item.at), None, kind),)
        return spread(parts, item.quoted)

    def arithmetic(self, body: Template, at: int) -> Parts:
        """Value of `$((…))`, or a gap with the reason why it cannot be known."""
        place = self.source.place(at)
        parts = self.text(body)
        numbers = Numbers(self.world, place, self.shell)
        try:
            if (gap := first_gap(parts)) and gap.kind != "unset":
                raise UnknownNumberError(gap)
            text = text_as_run(parts)
            value = evaluate(text, numbers, lambda *pair: self.shell.divided(place, text.strip(), *pair))
        except UnknownNumberError as unknown:
            return (unknown.gap,)
        except DivisionByZeroError as error:
            self.shell.division_by_zero(place, text.strip(), str(error))
            return (Gap("a division by zero", place, None, "unsupported"),)
        except BadArithmeticError as error:
            return (gap or Gap(f"arithmetic that is not understood: {error}", place, None, "unsupported"),)
        return (Piece(str(value), place),)
