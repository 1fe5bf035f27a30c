"""Answers of single tests, such as `-z x` and `a == b`: true, false, or None where only a run can tell."""

from __future__ import annotations

from verlcli.config.shell.arithmetic import BadArithmeticError, evaluate
from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import Template
from verlcli.config.shell.parts import Parts, first_gap, text_as_run
from verlcli.config.shell.patterns import TooHardError, extended_regex, matches
from verlcli.config.shell.types import Piece
from verlcli.config.shell.world import Numbers, UnknownNumberError

Answer = bool | None
FILE_TESTS = frozenset(
    (
        "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-h", "-k", "-p", "-r", "-s", "-t", "-u", "-w", "-x", "-G", "-L",
        "-N", "-O", "-S",
    )
)  # fmt: skip
NUMBER_TESTS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
BINARY_TESTS = NUMBER_TESTS | frozenset(["=", "==", "!=", "<", ">", "-nt", "-ot", "-ef", "=~"])


class NotATestError(Exception):
    """Words that `[` does not take; it then fails."""


class Judge:
    """Answers single tests about texts that may have gaps."""

    def __init__(self, expander: Expander) -> None:
        self.expander = expander

    def known(self, parts: Parts) -> str | None:
        """Text to test; None when only a run can tell it. A variable that nobody sets is empty to bash."""
        for part in parts:
            gap = first_gap((part,))
            world = self.expander.world
            if isinstance(part, Piece) and part.default and part.variable:
                world.asked |= {part.variable}
            if gap and gap.kind == "unset":
                world.touched_unset = True
                world.asked |= {gap.variable or ""}
            elif gap:
                return None
        return text_as_run(parts)

    def unary(self, operator: str, parts: Parts) -> Answer:
        text = self.known(parts)
        if operator in ("-n", "-z"):
            filled = bool(text_as_run(parts)) or (bool(text) if text is not None else None)
            return filled if operator == "-n" or filled is None else not filled
        if operator == "-v":
            return self.expander.world.variables.get(text or "") is not None or None
        # No file has an empty name.
        return False if text == "" and operator != "-t" else None

    def binary(self, left: Parts, operator: str, right: Parts, arithmetic: bool) -> Answer:
        one, other = self.known(left), self.known(right)
        if one is None or other is None or operator in ("-nt", "-ot", "-ef"):
            return None
        if operator in NUMBER_TESTS:
            return self.numbers(one, operator, other, arithmetic)
        return {"=": one == other, "==": one == other, "!=": one != other, "<": one < other, ">": one > other}[operator]

    def numbers(self, one: str, operator: str, other: str, arithmetic: bool) -> Answer:
        world = self.expander.world
        try:
            if arithmetic:
                names = Numbers(world, self.expander.source.place(0))
                first, second = evaluate(one, names), evaluate(other, names)
            else:
                first, second = int(one[:30]), int(other[:30])
        except UnknownNumberError:
            return None
        except (BadArithmeticError, ValueError):
            return False
        answers = {"-eq": first == second, "-ne": first != second, "-lt": first < second}
        return (answers | {"-le": first <= second, "-gt": first > second, "-ge": first >= second})[operator]

    def pattern(self, left: Parts, operator: str, right: Template) -> Answer:
        text = self.known(left)
        try:
            pattern = self.expander.pattern(_plain_unset(self, right))
            if text is None:
                return None
            answer = extended_regex(pattern, text) if operator == "=~" else matches(pattern, text)
        except TooHardError:
            return None
        return not answer if operator == "!=" else answer


def _plain_unset(judge: Judge, items: Template) -> Template:
    """A pattern that is one variable without a value is empty."""
    parts = judge.expander.text(items)
    return () if parts and judge.known(parts) == "" else items


def negation(answer: Answer) -> Answer:
    """Not, with None for undecided."""
    return None if answer is None else not answer


def conjunction(one: Answer, other: Answer) -> Answer:
    """And, with None for undecided."""
    if one is False or other is False:
        return False
    return True if one and other else None


def disjunction(one: Answer, other: Answer) -> Answer:
    """Or, with None for undecided."""
    return negation(conjunction(negation(one), negation(other)))
