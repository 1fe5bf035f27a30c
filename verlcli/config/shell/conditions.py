"""`[ … ]` and `[[ … ]]` in one world: true, false, or None where only a run can tell."""

from __future__ import annotations

from collections.abc import Sequence

from verlcli.config.shell.expand import Expander
from verlcli.config.shell.items import Item, Lit, Template
from verlcli.config.shell.judging import (
    BINARY_TESTS,
    FILE_TESTS,
    NUMBER_TESTS,
    Answer,
    Judge,
    NotATestError,
    conjunction,
    disjunction,
    negation,
)
from verlcli.config.shell.lexer import Lexer
from verlcli.config.shell.parts import Parts
from verlcli.config.shell.scanner import UnclosedError
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
    expander.world.asked |= {gap.variable or "" for gap in expander.dropped}
    if not words:
        return False
    reader = _Words(Judge(expander), words)
    answer = reader.either()
    if reader.left():
        raise NotATestError
    return answer


class _Double:
    """Recursive reading of the text between `[[` and `]]`."""

    def __init__(self, expander: Expander, start: int, end: int) -> None:
        self.expander, self.judge = expander, Judge(expander)
        self.text, self.end = expander.source.text, end
        self.lexer = Lexer(self.text, start, end)

    def blank(self) -> None:
        while self.lexer.at < self.end and (
            self.text[self.lexer.at].isspace() or self.text.startswith("\\\n", self.lexer.at)
        ):
            self.lexer.at += 1

    def at(self, token: str) -> bool:
        self.blank()
        if self.lexer.at >= self.end or not self.text.startswith(token, self.lexer.at):
            return False
        self.lexer.at += len(token)
        return True

    def either(self, depth: int = 0) -> Answer:
        answer = self.both(depth)
        while self.at("||"):
            answer = disjunction(answer, self.both(depth))
        return answer

    def both(self, depth: int) -> Answer:
        answer = self.one(depth)
        while self.at("&&"):
            answer = conjunction(answer, self.one(depth))
        return answer

    def one(self, depth: int) -> Answer:
        self.blank()
        if depth > 20 or self.lexer.at >= self.end:
            raise NotATestError
        if self.at("! ") or self.at("!("):
            self.lexer.at -= self.text[self.lexer.at - 1] == "("
            return negation(self.one(depth + 1))
        if self.at("("):
            answer = self.either(depth + 1)
            if not self.at(")"):
                raise NotATestError
            return answer
        return self.single()

    def word(self, mode: str = "pattern") -> Template:
        self.blank()
        start = self.lexer.at
        items = self.lexer.word(mode)
        if self.lexer.at == start:
            raise NotATestError
        return items

    def single(self) -> Answer:
        first = self.word()
        name = first[0].text if len(first) == 1 and isinstance(first[0], Lit) and not first[0].quoted else ""
        if name in ("-n", "-z", "-v") or name in FILE_TESTS:
            return self.judge.unary(name, self.expander.text(self.word()))
        left = self.expander.text(first)
        self.blank()
        for operator in ("=~", "==", "!=", "=", "<", ">", *sorted(NUMBER_TESTS), "-nt", "-ot", "-ef"):
            if self.at(operator):
                return self.compared(left, operator)
        return self.judge.unary("-n", left)

    def compared(self, left: Parts, operator: str) -> Answer:
        if operator == "=~":
            return self.judge.pattern(left, operator, self.regex())
        right = self.word()
        if operator in ("==", "=", "!="):
            return self.judge.pattern(left, operator, right)
        return self.judge.binary(left, operator, self.expander.text(right), arithmetic=True)

    def regex(self) -> Template:
        """Everything up to the next blank: brackets and bars have no other meaning here."""
        self.blank()
        items: list[Item] = []
        while self.lexer.at < self.end and not self.text[self.lexer.at].isspace():
            start = self.lexer.at
            items += self.lexer.word()
            if self.lexer.at == start:
                items.append(Lit(self.text[start], start, False))
                self.lexer.at += 1
        return tuple(items)


def double_bracket_test(expander: Expander, start: int, end: int) -> Answer:
    """Answer of the text from `start` to `end` between `[[` and `]]`; None as well where it is not understood."""
    try:
        return _Double(expander, start, end).either()
    except (NotATestError, UnclosedError):
        return None
