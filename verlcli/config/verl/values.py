"""Value of a Hydra override -> plain data, by the grammar of Hydra 1.3: what stands behind `key=`.

One scan over the text makes tokens, one descent over the tokens makes the value. Where Hydra only names a token that it
did not expect, the error says which character it was and how to quote it.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from verlcli.config.verl.casts import CastError, Sweep, call
from verlcli.config.verl.tokens import Token, ValueSyntaxError, tokens_of

__all__ = ["MAX_DEPTH", "ValueSyntaxError", "parse_value"]

MAX_DEPTH = 64

_KEY_KINDS = frozenset({"id", "null", "int", "float", "bool", "char", "escape", "space"})
_PRIMITIVE_KINDS = _KEY_KINDS | {"interpolation", "colon"}
_NAMES = {"list": "[", "map": "{", "open": "("}
_CLOSERS = {"unlist": "]", "unmap": "}", "close": ")"}


def parse_value(text: str) -> Any:
    """The value that Hydra makes of `text`: None, bool, int, float, str, list, dict, or a `Sweep`.

    Quoted text is a string, `1e-6` a float, `1_000` an integer, `a b/c:d` a string; `${...}` stays as it is, for the
    reader of the whole config to resolve. Empty text is the empty string.

    Raises:
        ValueSyntaxError: Hydra would stop with a lexer or parser error, or in a function such as `int(x)`.
    """
    tokens = tokens_of(text)
    if not tokens:
        return ""
    return _Parser(tokens, len(text)).value()


class _Parser:
    def __init__(self, tokens: list[Token], end: int) -> None:
        self.tokens, self.at, self.end = tokens, 0, end
        self.depth = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.at].kind if self.at < len(self.tokens) else "end"

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def refuse(self, message: str, fix: str | None = None) -> NoReturn:
        offset = self.tokens[self.at].offset if self.at < len(self.tokens) else self.end
        raise ValueSyntaxError(message, fix, offset)

    def value(self) -> Any:
        elements = [self.element()]
        while self.kind == "comma":
            self.take()
            elements.append(self.element())
        if self.kind != "end":
            self.unexpected()
        return elements[0] if len(elements) == 1 else Sweep(tuple(elements), simple=True)

    def element(self) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH} levels")
        made = self._element()
        self.depth -= 1
        return made

    def _element(self) -> Any:
        if self.kind == "list":
            return self.list_of()
        if self.kind == "map":
            return self.map_of()
        if self.kind == "quoted":
            return _unquoted(self.take().text)
        if self.kind == "id" and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "open":
            return self.function()
        return self.primitive(_PRIMITIVE_KINDS)

    def list_of(self) -> list[Any]:
        self.take()
        items: list[Any] = []
        while self.kind != "unlist":
            items.append(self.element())
            self.separated("unlist", "[")
        self.take()
        return items

    def map_of(self) -> dict[Any, Any]:
        self.take()
        pairs: dict[Any, Any] = {}
        while self.kind != "unmap":
            if self.kind == "quoted":
                self.refuse("keys of a mapping stand without quotes", "write {key: value}")
            key = self.primitive(_KEY_KINDS)
            if self.kind != "colon":
                self.expected_colon()
            self.take()
            pairs[key] = self.element()
            self.separated("unmap", "{")
        self.take()
        return pairs

    def separated(self, closer: str, opener: str) -> None:
        """Step over a comma that has an item behind it; stop before the bracket that closes."""
        if self.kind == "comma":
            self.take()
            if self.kind == closer:
                self.refuse("there is nothing behind the last comma", "remove the comma")
        elif self.kind == "end":
            self.refuse(f"the {opener} is not closed", f"add {_CLOSERS[closer]}, and quote the whole word")
        elif self.kind != closer:
            self.unexpected()

    def expected_colon(self) -> NoReturn:
        if self.kind == "equal":
            self.refuse("a mapping is written with :", "write {key: value}")
        if self.kind == "end":
            self.refuse("the { is not closed", "add }, and quote the whole word")
        self.refuse("a key of the mapping has no value", "write {key: value}")

    def function(self) -> Any:
        name = self.take()
        self.take()
        arguments: list[Any] = []
        named: dict[str, Any] = {}
        while self.kind != "close":
            label = self.label()
            if named and not label:
                self.refuse("a positional argument stands behind a named one")
            value = self.element()
            if label:
                named[label] = value
            else:
                arguments.append(value)
            self.separated("close", "(")
        self.take()
        try:
            return call(name.text, arguments, named)
        except CastError as error:
            raise ValueSyntaxError(str(error), "quote text with brackets", name.offset) from None

    def label(self) -> str:
        following = self.tokens[self.at + 1].kind if self.at + 1 < len(self.tokens) else "end"
        if self.kind != "id" or following != "equal":
            return ""
        name = self.take().text
        self.take()
        return name

    def primitive(self, kinds: frozenset[str] | set[str]) -> Any:
        start = self.at
        while self.kind in kinds:
            self.at += 1
        if self.at == start:
            self.unexpected()
        tokens = self.tokens[start : self.at]
        first, last = tokens[0].kind == "space", tokens[-1].kind == "space"
        if len(tokens) == 1 and first:
            raise ValueSyntaxError("the value is nothing but spaces", "remove them, or write ''", tokens[0].offset)
        tokens = tokens[first : len(tokens) - last]
        return _scalar(tokens[0]) if len(tokens) == 1 else "".join(_plain(token) for token in tokens)

    def unexpected(self) -> NoReturn:
        """Say why the token at hand cannot stand here."""
        if self.kind == "end":
            self.refuse("the value stops too early")
        text = self.tokens[self.at].text.strip()
        if self.kind == "equal":
            self.refuse("Hydra does not read a second = in a value", "put quotes around the value, inside the shell's")
        if self.kind == "comma":
            self.refuse("there is nothing before the comma", "remove it")
        if self.kind in _CLOSERS:
            self.refuse(f"a {text} has no partner", f"remove it, or quote the value, if {text} belongs to the text")
        if self.kind in _NAMES:
            self.refuse(f"Hydra does not read {text} inside text", "put quotes around the value, inside the shell's")
        if self.kind == "quoted" or self.tokens[self.at - 1].kind == "quoted":
            self.refuse("a quoted text has more text beside it", "put all of it inside the quotes")
        self.refuse(f"Hydra does not read {text!r} here", "put quotes around the value, inside the shell's")


def _plain(token: Token) -> str:
    return token.text[1::2] if token.kind == "escape" else token.text


def _scalar(token: Token) -> Any:
    if token.kind == "int":
        # Python refuses to convert very long ones; no config means them.
        return int(token.text) if len(token.text) <= 1000 else token.text
    if token.kind == "float":
        return float(token.text)
    if token.kind == "bool":
        return token.text.lower() == "true"
    return None if token.kind == "null" else _plain(token)


def _unquoted(text: str) -> str:
    quote, inner = text[0], text[1:]
    # Backslashes count before a quote alone. The closing one goes with them, if there are any before it.
    undone = re.sub(rf"\\+{quote}", lambda match: match[0][1::2], inner)
    return undone if inner.endswith(f"\\{quote}") else undone[:-1]
