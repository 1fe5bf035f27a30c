"""Integer arithmetic of bash: 64 bits, division that cuts off, variables by name."""

from __future__ import annotations

import operator as op
import re
from collections.abc import Callable
from functools import partial
from typing import Protocol

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+#\w+|\d+|[A-Za-z_]\w*(?:\[[^\]]*\])?|<<=|>>=|\*\*|[-+*/%&|^]=|\+\+|--|<<|"
    r">>|<=|>=|==|!=|&&|\|\||[-+*/%<>!~&|^?:=(),])",
    re.ASCII,
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_RANKS = {name: rank for rank, names in enumerate(_LEVELS) for name in names}
_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": op.add, "-": op.sub, "*": op.mul, "&": op.and_, "|": op.or_, "^": op.xor,
    "==": op.eq, "!=": op.ne, "<": op.lt, ">": op.gt, "<=": op.le, ">=": op.ge,
    "&&": lambda left, right: bool(left and right), "||": lambda left, right: bool(left or right),
}  # fmt: skip
_DEEPEST = 25


class BadArithmeticError(Exception):
    """An expression that bash would not take, or that is not followed here."""


class DivisionByZeroError(BadArithmeticError):
    """Bash stops the command with `division by 0`."""


class Names(Protocol):
    """Where an expression finds its variables."""

    def get(self, name: str) -> str:
        """Text of a variable, empty when it is not set; raises `BadArithmeticError` when it cannot be known."""

    def put(self, name: str, value: int) -> None:
        """Sets a variable."""


Divided = Callable[[int, int, str], None]  # told of every division: both numbers and the operator


def evaluate(text: str, names: Names, divided: Divided = lambda *_: None, depth: int = 0) -> int:
    """Value of an expression. Raises `BadArithmeticError`, and `DivisionByZeroError` among it."""
    if depth > _DEEPEST:
        raise BadArithmeticError("variables that name each other")
    parser = _Parser(_tokens(text), names, divided, depth)
    if not parser.tokens:
        return 0
    value = parser.comma()
    if parser.at < len(parser.tokens):
        raise BadArithmeticError(f"`{parser.tokens[parser.at]}` is not expected")
    return value


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise BadArithmeticError(f"`{text[at : at + 10]}` is not arithmetic")
        tokens.append(match[1])
        at = match.end()
    return tokens


def wrapped(value: int) -> int:
    """The value in 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def _number(token: str) -> int:
    try:
        if "#" in token:
            base, _, digits = token.partition("#")
            return wrapped(int(digits, int(base)))
        if token[:2] in ("0x", "0X"):
            return wrapped(int(token, 16))
        return wrapped(int(token, 8) if token[0] == "0" else int(token[:30]))
    except ValueError as error:
        raise BadArithmeticError(f"`{token}` is not a number") from error


class _Parser:
    def __init__(self, tokens: list[str], names: Names, divided: Divided, depth: int) -> None:
        self.tokens, self.at, self.depth = tokens, 0, depth
        self.names, self.divided = names, divided
        self.skipping = 0  # inside a side that is not evaluated

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def comma(self) -> int:
        value = self.assignment()
        while self.peek() == ",":
            self.take()
            value = self.assignment()
        return value

    def assignment(self) -> int:
        name = self.peek()
        operator = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if (
            (name[:1].isalpha() or name[:1] == "_")
            and operator.endswith("=")
            and operator not in ("==", "<=", ">=", "!=")
        ):
            self.at += 2
            value = self.nested(self.assignment)
            if operator != "=":
                value = self.binary(operator[:-1], self.variable(name), value)
            self.store(name, value)
            return value
        return self.ternary()

    def nested(self, parse: Callable[[], int]) -> int:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise BadArithmeticError("too deep an expression")
        value = parse()
        self.depth -= 1
        return value

    def store(self, name: str, value: int) -> None:
        if not self.skipping:
            self.names.put(name, value)

    def ternary(self) -> int:
        value = self.level(0)
        if self.peek() != "?":
            return value
        self.take()
        yes = self.guarded(not value, lambda: self.nested(self.assignment))
        if self.take() != ":":
            raise BadArithmeticError("a `?` without its `:`")
        no = self.guarded(bool(value), lambda: self.nested(self.assignment))
        return yes if value else no

    def guarded(self, skip: bool, parse: Callable[[], int]) -> int:
        self.skipping += skip
        value = parse()
        self.skipping -= skip
        return value

    def level(self, lowest: int) -> int:
        """Numbers between operators that bind as those of a level or closer."""
        value = self.power()
        while (rank := _RANKS.get(self.peek(), -1)) >= lowest:
            operator = self.take()
            skip = (operator == "&&" and not value) or (operator == "||" and bool(value))
            right = self.guarded(skip, partial(self.level, rank + 1))
            value = self.binary(operator, value, right)
        return value

    def power(self) -> int:
        value = self.unary()
        if self.peek() != "**":
            return value
        self.take()
        exponent = self.nested(self.power)
        if exponent < 0 or exponent > 64:
            raise BadArithmeticError("an exponent below 0 or above 64")
        return wrapped(value**exponent)

    def unary(self) -> int:
        token = self.take()
        if token in ("-", "+", "!", "~"):
            value = self.nested(self.unary)
            return wrapped({"-": -value, "+": value, "!": int(not value), "~": ~value}[token])
        if token in ("++", "--"):
            name = self.take()
            value = wrapped(self.variable(name) + (1 if token == "++" else -1))
            self.store(name, value)
            return value
        return self.primary(token)

    def primary(self, token: str) -> int:
        if token == "(":
            value = self.nested(self.comma)
            if self.take() != ")":
                raise BadArithmeticError("a bracket without its end")
            return value
        if token[:1].isdigit():
            return _number(token)
        if not (token[:1].isalpha() or token[:1] == "_"):
            raise BadArithmeticError(f"`{token}` is not expected" if token else "it ends too early")
        value = self.variable(token)
        if self.peek() in ("++", "--"):
            self.store(token, wrapped(value + (1 if self.take() == "++" else -1)))
        return value

    def variable(self, name: str) -> int:
        return evaluate(self.names.get(name), self.names, self.divided, self.depth + 1)

    def binary(self, operator: str, left: int, right: int) -> int:
        if operator in ("/", "%"):
            return self.divide(operator, left, right)
        if operator in ("<<", ">>"):
            return wrapped(left << (right & 63)) if operator == "<<" else left >> (right & 63)
        return wrapped(int(_BINARY[operator](left, right)))

    def divide(self, operator: str, left: int, right: int) -> int:
        if self.skipping:
            return 0
        if right == 0:
            raise DivisionByZeroError(f"{left}{operator}0")
        self.divided(left, right, operator)
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return wrapped(quotient if operator == "/" else left - quotient * right)
