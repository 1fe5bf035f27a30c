"""`[ … ]` in one world: true, false, or None where only a run can tell."""

from __future__ import annotations

from collections.abc import Sequence

from verlcli.config.shell.expand import Expander
from verlcli.config.shell.judging import (
    BINARY_TESTS,
    FILE_TESTS,
    Answer,
    Judge,
    NotATestError,
    conjunction,
    disjunction,
    negation,
)
from verlcli.config.shell.types import Word


class _Words:
    """Recursive reading of the words between `[` and `]`."""

    def __init__(self, judge: Judge, words: Sequence[Word]) -> None:
        self.judge, self.words, self.at = judge, words, 0

    def text(self, ahead: int = 0) -> str | None:
        index = self.at + ahead
        return self.words[index].text if index < len(self.words) else ""

    def left(self) -> int:
        return len(self.words) - self.at

    def either(self, depth: int = 0) -> Answer:
        answer = self.both(depth)
        while self.left() and self.text() == "-o":
            self.at += 1
            answer = disjunction(answer, self.both(depth))
        return answer

    def both(self, depth: int) -> Answer:
        answer = self.one(depth)
        while self.left() and self.text() == "-a":
            self.at += 1
            answer = conjunction(answer, self.one(depth))
        return answer

    def one(self, depth: int) -> Answer:
        if not self.left() or depth > 20:
            raise NotATestError
        if self.left() >= 3 and self.text(1) in BINARY_TESTS:
            self.at += 3
            left, operator, right = self.words[self.at - 3 : self.at]
            return self.judge.binary(left.parts, operator.text or "", right.parts, arithmetic=False)
        if self.text() == "!" and self.left() > 1:
            self.at += 1
            return negation(self.one(depth + 1))
        if self.text() == "(" and self.left() > 2:
            return self.bracketed(depth)
        return self.single()

    def bracketed(self, depth: int) -> Answer:
        self.at += 1
        answer = self.either(depth + 1)
        if self.text() != ")":
            raise NotATestError
        self.at += 1
        return answer

    def single(self) -> Answer:
        operator = self.text() or ""
        if self.left() >= 2 and (operator in ("-n", "-z", "-v") or operator in FILE_TESTS):
            self.at += 2
            return self.judge.unary(operator, self.words[self.at - 1].parts)
        self.at += 1
        return self.judge.unary("-n", self.words[self.at - 1].parts)


def bracket_test(expander: Expander, words: Sequence[Word]) -> Answer:
    """Answer of `[ words ]`. Raises `NotATestError` for words that it does not take."""
    if any(gap.kind != "unset" for gap in expander.dropped):
        return None
    expander.world.touched_unset |= bool(expander.dropped)
    if not words:
        return False
    reader = _Words(Judge(expander), words)
    answer = reader.either()
    if reader.left():
        raise NotATestError
    return answer
