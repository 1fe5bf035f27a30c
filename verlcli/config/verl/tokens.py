"""Text of a Hydra value -> tokens, by the lexer of Hydra 1.3: at every place the longest token, then the first."""

from __future__ import annotations

import re
from typing import NoReturn

from verlcli.config.quick import dataclass

_INT = r"(?:0|[1-9](?:_?[0-9])*)"
_POINT = rf"(?:{_INT}?\.[0-9](?:_?[0-9])*|{_INT}\.)"
_EXPONENT = rf"(?:{_POINT}|{_INT})[eE][+-]?[0-9](?:_?[0-9])*"
_END = r"(?![A-Za-z0-9_-])"  # a keyword that goes on is a name
_QUOTED = r"""(?:"(?:(?:\\\\)*"|.*?[^\\](?:\\\\)*")|'(?:(?:\\\\)*'|.*?[^\\](?:\\\\)*'))"""
_TOKENS = (
    ("open", r"[ \t]*\([ \t]*"),
    ("comma", r"[ \t]*,[ \t]*"),
    ("close", r"[ \t]*\)"),
    ("list", r"\[[ \t]*"),
    ("unlist", r"[ \t]*\]"),
    ("map", r"\{[ \t]*"),
    ("unmap", r"[ \t]*\}"),
    ("colon", r"[ \t]*:[ \t]*"),
    ("equal", r"[ \t]*=[ \t]*"),
    ("quoted", _QUOTED),
    ("interpolation", r"\$\{[^}]+\}"),
    ("escape", r"(?:\\[\\()\[\]{}:=, \t])+"),
    ("float", rf"[+-]?(?:{_EXPONENT}|{_POINT})|[+-](?:inf|nan)|(?:inf|nan){_END}"),
    ("int", rf"[+-]?{_INT}"),
    ("bool", rf"(?:true|false){_END}"),
    ("null", rf"null{_END}"),
    ("id", r"[A-Za-z_][A-Za-z0-9_-]*"),
    ("char", r"[/\-\\+.$%*@?|]"),
    ("space", r"[ \t]+"),
)
_FLAGS = re.DOTALL | re.IGNORECASE | re.ASCII
_SCAN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _TOKENS), _FLAGS)


class ValueSyntaxError(Exception):
    """Hydra cannot read a value.

    Attributes:
        message: what is wrong.
        fix: what to write instead, or None.
        offset: of the character that is to blame, in the text of the value.
    """

    def __init__(self, message: str, fix: str | None, offset: int) -> None:
        super().__init__(message)
        self.message, self.fix, self.offset = message, fix, offset


@dataclass(frozen=True, slots=True)
class Token:
    """A run of characters with its kind and where it starts."""

    kind: str
    text: str
    offset: int


def tokens_of(text: str) -> list[Token]:
    """Tokens of a value, without a gap between them.

    Raises:
        ValueSyntaxError: a character that no token of Hydra has.
    """
    found, at = [], 0
    while at < len(text):
        match = _SCAN.match(text, at)
        if match is None:
            _refuse_character(text, at)
        found.append(Token(str(match.lastgroup), match[0], at))
        at = match.end()
    return found


def _refuse_character(text: str, at: int) -> NoReturn:
    character = text[at]
    if character in "'\"":
        raise ValueSyntaxError(f"the quote {character} is not closed", f"close it, or remove the {character}", at)
    if character == "~" and at == 0:
        raise ValueSyntaxError("Hydra does not read a value that starts with ~", "write $HOME instead of ~", at)
    if re.fullmatch(r"<[^<>]*>", text):
        raise ValueSyntaxError(f"{text} is a placeholder", "write the real value in its place", at)
    if character == "\n":
        raise ValueSyntaxError("there is a line break in the value", "quote the value inside the shell's quotes", at)
    raise ValueSyntaxError(f"Hydra does not read {character!r} without quotes", _quoted_inside(text), at)


def _quoted_inside(text: str) -> str:
    quote = "'" if "'" not in text else '"'
    outer = '"' if quote == "'" else "'"
    return f"keep quotes for Hydra inside the shell's: {outer}KEY={quote}{text}{quote}{outer}"
