"""Parts of a script that are read without knowing its words: quotes, brackets, here-documents."""

from __future__ import annotations

import re

from verlcli.config.shell.items import Item, Lit, Subst, Unread

_DEEPEST = 30  # quotes and substitutions inside each other
_HERE = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|(\\?)([\w.!@%+-]+))")
# References of OmegaConf, at which bash says "bad substitution".
REFUSED = re.compile(r"\$\{(?:[A-Za-z_]\w*\.|[./]|\})", re.ASCII)
_ESCAPABLE = {"quote": '$`"\\', "document": "$`\\", "arithmetic": "$`\\"}
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_HALVES = range(0xD800, 0xE000)  # halves of a pair, which alone are no character
_ANSI_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)


class UnclosedError(Exception):
    """A quote or a bracket without its end, or more than is followed: nothing below it can be read."""

    def __init__(self, at: int, mark: str, beyond: str = "") -> None:
        named = "a backquote" if mark == "`" else f"`{mark}`"
        super().__init__(beyond or f"{named} has no end: bash reads to the end of the script and stops there")
        self.at, self.beyond = at, bool(beyond)


class Scanner:
    """A position in a text that moves on, up to `end`."""

    def __init__(self, text: str, at: int = 0, end: int | None = None) -> None:
        self.text, self.at = text, at
        self.end = len(text) if end is None else end
        self.depth = 0

    def deeper(self, at: int) -> None:
        """One more quote or substitution around the position. Raises `UnclosedError` where there are too many."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise UnclosedError(at, "", "this is more deeply nested than is followed: what comes below it is not read")

    def single(self) -> Lit:
        """`'…'`."""
        close = self.text.find("'", self.at + 1, self.end)
        if close < 0:
            raise UnclosedError(self.at, "'")
        item = Lit(self.text[self.at + 1 : close], self.at + 1, True)
        self.at = close + 1
        return item

    def ansi(self) -> Lit:
        """`$'…'`, with its escapes replaced."""
        start = at = self.at + 2
        while at < self.end and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        if at >= self.end:
            raise UnclosedError(self.at, "'")
        self.at = at + 1
        return Lit(_ANSI_ESCAPE.sub(_ansi_char, self.text[start:at]), start, True)

    def backquoted(self, quoted: bool) -> Item:
        """The statements between backquotes."""
        start, at = self.at, self.at + 1
        while at < self.end and self.text[at] != "`":
            at += 2 if self.text[at] == "\\" else 1
        if at >= self.end:
            raise UnclosedError(start, "`")
        self.at = at + 1
        if "\\" in self.text[start:at]:
            return Unread("a command in backquotes with escapes inside", start, quoted)
        return Subst(start + 1, at, start, quoted)

    def escaped(self, mode: str) -> list[Item]:
        """A backslash inside quotes, which stays where it hides nothing."""
        at, follower = self.at, self.text[self.at + 1 : min(self.at + 2, self.end)]
        self.at += 1 + len(follower)
        if follower == "\n":
            return []
        if follower and follower in _ESCAPABLE[mode]:
            return [Lit(follower, at + 1, True)]
        return [Lit(self.text[at : self.at], at, True)]

    def group(self) -> list[Item]:
        """The `(a|b)` of a pattern."""
        start, end = self.at, self._balanced(self.at)
        self.at = end
        return [Lit(self.text[start:end], start, False)]

    def arithmetic_end(self, at: int) -> int | None:
        """Offset of the `))` of `$((`; None where the brackets are those of a subshell in `$(`."""
        depth = 0
        while at < self.end:
            char = self.text[at]
            if char == "(":
                depth += 1
            elif char == ")":
                if depth == 0:
                    return at if self.text.startswith("))", at) else None
                depth -= 1
            at += 1
        return None

    def _balanced(self, at: int) -> int:
        """Offset behind the bracket that closes the `(` at `at`."""
        depth, start = 0, at
        while at < self.end:
            depth += {"(": 1, ")": -1}.get(self.text[at], 0)
            at += 1
            if depth == 0:
                return at
        raise UnclosedError(start, "(")

    def unread(self, start: int, quoted: bool) -> Unread:
        """A `${…}` that is not read, up to the first `}`."""
        close = self.text.find("}", start, self.end)
        if close < 0:
            raise UnclosedError(start, "${")
        self.at = close + 1
        written, refused = self.text[start : self.at], REFUSED.match(self.text, start) is not None
        return Unread(f"`{written}`" if refused else f"{written}, which is not read here", start, quoted, refused)


def here_document(text: str, at: int) -> tuple[int, str, bool, bool] | None:
    """`<<EOF` at `at`: offset behind it, its closing word, whether its body is literal, whether it is `<<-`."""
    match = _HERE.match(text, at)
    if not match or text.startswith("<<<", at):
        return None
    dash, single, double, escape, plain = match.groups()
    word = next(found for found in (single, double, plain) if found is not None)
    return match.end(), word, plain is None or bool(escape), bool(dash)


def document_end(text: str, start: int, end: int, word: str, dashed: bool) -> tuple[int, int]:
    """Offsets of the end of a here-document's body that starts at `start`, and of what follows its closing line."""
    at = start
    while at < end:
        newline = text.find("\n", at, end)
        stop = end if newline < 0 else newline
        line = text[at:stop]
        if (line.lstrip("\t") if dashed else line) == word:
            return at, min(stop + 1, end)
        at = stop + 1
    return end, end


def _ansi_char(match: re.Match[str]) -> str:
    hexadecimal, wide, octal, char = match.groups()
    if hexadecimal or wide:
        code = int(hexadecimal or wide, 16)
        return chr(code) if code not in _HALVES else "\ufffd"
    if octal:
        return chr(int(octal, 8) & 0xFF)
    return _ANSI.get(char) or (char if char in "\\'\"?" else "\\" + char)
