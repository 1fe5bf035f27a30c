"""Characters of a word -> its items: quotes taken off, `$…` taken apart, nothing evaluated."""

from __future__ import annotations

import re

from verlcli.config.shell.documents import document_end, here_document
from verlcli.config.shell.items import Arith, Item, Lit, Param, Subst, Template, Unread

_MOST_ITEMS = 20_000  # of one word
_DEEPEST = 30  # quotes and substitutions inside each other
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!-]", re.ASCII)
_SHORT_PARAMETER = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!-]", re.ASCII)
_OPERATOR = re.compile(r":?[-=?+]|%%?|##?|//|/[#%]?|\^\^?|,,?|:|@")
_RUNS = {
    "word": re.compile(r"[^ \t\n;&|<>()$`\"'\\]+"),
    "pattern": re.compile(r"[^ \t\n;&|<>()$`\"'\\]+"),
    "quote": re.compile(r"[^$`\"\\]+"),
    "document": re.compile(r"[^$`\\]+"),
    "arithmetic": re.compile(r"[^$`\"'\\]+"),
}
_BRACE_RUNS = {
    (False, ""): re.compile(r"[^$`\"'\\}]+"),
    (True, ""): re.compile(r"[^$`\"\\}]+"),
    (False, "/"): re.compile(r"[^$`\"'\\}/]+"),
    (True, "/"): re.compile(r"[^$`\"\\}/]+"),
    (False, ":"): re.compile(r"[^$`\"'\\}:]+"),
    (True, ":"): re.compile(r"[^$`\"\\}:]+"),
}
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


class Lexer:
    """Reads words at a position that moves on."""

    def __init__(self, text: str, at: int = 0, end: int | None = None) -> None:
        self.text, self.at = text, at
        self.end = len(text) if end is None else end
        self._depth = 0

    def word(self, mode: str = "word") -> Template:
        """Items of the word at the position; in `pattern` mode `@(a|b)` is a part of it."""
        items: list[Item] = []
        while self.at < self.end:
            char = self.text[self.at]
            if char in " \t\n;&|<>)":
                if char in "<>" and not items and self.text.startswith("(", self.at + 1):
                    items.append(self._process())
                    continue
                break
            if char == "(":
                # Bash itself stops here, unless it is a pattern like `@(a|b)`.
                if mode != "pattern" or not (self.at and self.text[self.at - 1] in "?*+@!"):
                    break
                items += self._group()
                continue
            self._unquoted(items, _RUNS[mode], mode)
            if len(items) > _MOST_ITEMS:
                raise UnclosedError(self.at, "", "a word of more parts than are followed: what comes below is not read")
        return tuple(items)

    def document(self) -> Template:
        """Items of a here-document's body, up to the end."""
        return tuple(self._until("", "document", _RUNS["document"]))

    def arithmetic(self) -> Template:
        """Items of an arithmetic expression, up to the end."""
        return tuple(self._until("", "arithmetic", _RUNS["arithmetic"]))

    def _group(self) -> list[Item]:
        start, end = self.at, self._balanced(self.at)
        self.at = end
        return [Lit(self.text[start:end], start, False)]

    def _process(self) -> Unread:
        start = self.at
        self.at = self.closing(start + 2) + 1
        return Unread("a file that bash makes from a command's output", start, False)

    def _unquoted(self, items: list[Item], runs: re.Pattern[str], mode: str) -> None:
        char, at = self.text[self.at], self.at
        if char == "'":
            items.append(self._single())
        elif char == '"':
            items += self._double()
        elif char == "$":
            items += self._dollar(quoted=False)
        elif char == "`":
            items.append(self._backquoted(quoted=False))
        elif char == "\\":
            if at + 1 < self.end and self.text[at + 1] != "\n":
                items.append(Lit(self.text[at + 1], at + 1, True))
            elif at + 1 >= self.end:
                items.append(Lit("\\", at, False))
            self.at = min(at + 2, self.end)
        else:
            match = runs.match(self.text, at, self.end)
            self.at = match.end() if match else at + 1
            items.append(Lit(self.text[at : self.at], at, False))

    def _single(self) -> Lit:
        close = self.text.find("'", self.at + 1, self.end)
        if close < 0:
            raise UnclosedError(self.at, "'")
        item = Lit(self.text[self.at + 1 : close], self.at + 1, True)
        self.at = close + 1
        return item

    def _double(self) -> list[Item]:
        start = self.at
        self.at += 1
        self._deeper(start)
        items = self._until('"', "quote", _RUNS["quote"])
        self._depth -= 1
        if self.at >= self.end:
            raise UnclosedError(start, '"')
        self.at += 1
        return items or [Lit("", start + 1, True)]

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnclosedError(at, "", "this is more deeply nested than is followed: what comes below it is not read")

    def _until(self, stop: str, mode: str, runs: re.Pattern[str]) -> list[Item]:
        """Items of quoted text up to the character `stop`, which stays to be read."""
        items: list[Item] = []
        while self.at < self.end and not (stop and self.text[self.at] == stop):
            char, at = self.text[self.at], self.at
            if char == "$":
                items += self._dollar(quoted=True)
            elif char == "`":
                items.append(self._backquoted(quoted=True))
            elif char == "\\":
                items += self._escaped(mode)
            else:
                match = runs.match(self.text, at, self.end)
                self.at = match.end() if match else at + 1
                items.append(Lit(self.text[at : self.at], at, True))
        return items

    def _escaped(self, mode: str) -> list[Item]:
        at, follower = self.at, self.text[self.at + 1 : min(self.at + 2, self.end)]
        self.at += 1 + len(follower)
        if follower == "\n":
            return []
        if follower and follower in _ESCAPABLE[mode]:
            return [Lit(follower, at + 1, True)]
        return [Lit(self.text[at : self.at], at, True)]

    def _backquoted(self, quoted: bool) -> Item:
        start, at = self.at, self.at + 1
        while at < self.end and self.text[at] != "`":
            at += 2 if self.text[at] == "\\" else 1
        if at >= self.end:
            raise UnclosedError(start, "`")
        self.at = at + 1
        if "\\" in self.text[start:at]:
            return Unread("a command in backquotes with escapes inside", start, quoted)
        return Subst(start + 1, at, start, quoted)

    def _dollar(self, quoted: bool) -> list[Item]:
        text, start = self.text, self.at
        if text.startswith("$((", start) and (close := self._arithmetic_end(start + 3)) is not None:
            body = Lexer(text, start + 3, close)
            body._depth = self._depth
            body._deeper(start)
            self.at = close + 2
            return [Arith(body.arithmetic(), start, quoted)]
        if text.startswith("$(", start):
            close = self.closing(start + 2)
            self.at = close + 1
            return [Subst(start + 2, close, start, quoted)]
        if text.startswith("${", start):
            return [self._braced(quoted)]
        if not quoted and text.startswith("$'", start):
            return [self._ansi()]
        if not quoted and text.startswith('$"', start):
            self.at += 1
            return self._double()
        match = _SHORT_PARAMETER.match(text, start + 1, self.end)
        if not match:
            self.at += 1
            return [Lit("$", start, quoted)]
        self.at = match.end()
        return [Param(match[0], start, quoted, bare=True)]

    def _ansi(self) -> Lit:
        start = at = self.at + 2
        while at < self.end and self.text[at] != "'":
            at += 2 if self.text[at] == "\\" else 1
        if at >= self.end:
            raise UnclosedError(self.at, "'")
        self.at = at + 1
        return Lit(_ANSI_ESCAPE.sub(_ansi_char, self.text[start:at]), start, True)

    def _braced(self, quoted: bool) -> Item:
        start = self.at
        self._deeper(start)
        self.at += 2
        item = self._parameter(start, quoted)
        self._depth -= 1
        if item is None or not self.text.startswith("}", self.at) or self.at >= self.end:
            self.at = self._balanced_brace(start)
            return Unread(f"{self.text[start : self.at]}, which is not read here", start, quoted)
        self.at += 1
        return item

    def _parameter(self, start: int, quoted: bool) -> Param | None:
        text = self.text
        prefix = text[self.at : self.at + 1]
        following = text[self.at + 1 : self.at + 2]
        length = prefix == "#" and following not in ("}", ":", "-", "%", "#", "=", "+", "/", "")
        indirect = prefix == "!" and following not in ("}", "")
        self.at += length or indirect
        match = _PARAMETER.match(text, self.at, self.end)
        if not match:
            return None
        self.at = match.end()
        index = self._index()
        operator = _OPERATOR.match(text, self.at, self.end)
        if not operator or length:
            return Param(match[0], start, quoted, index=index, length=length, indirect=indirect)
        self.at = operator.end()
        arg, second = self._arguments(operator[0], quoted)
        return Param(match[0], start, quoted, operator[0], arg, second, index, False, indirect)

    def _index(self) -> Template | None:
        if not self.text.startswith("[", self.at):
            return None
        close = self.text.find("]", self.at, self.end)
        if close < 0:
            raise UnclosedError(self.at, "[")
        inner = Lexer(self.text, self.at + 1, close)
        inner._depth = self._depth
        self.at = close + 1
        return inner.arithmetic()

    def _arguments(self, operator: str, quoted: bool) -> tuple[Template, Template]:
        divider = operator[0] if operator[0] == "/" or operator == ":" else ""
        # Quotes around a pattern hide its stars, even inside a quoted word.
        plain = quoted and operator[0] in ":-=?+" and operator != ":"
        arg = self._brace_text(plain, divider)
        second: Template = ()
        if divider and self.text.startswith(divider, self.at) and self.at < self.end:
            self.at += 1
            second = self._brace_text(plain, "")
        return arg, second

    def _brace_text(self, quoted: bool, divider: str) -> Template:
        items: list[Item] = []
        runs = _BRACE_RUNS[quoted, divider]
        while self.at < self.end and self.text[self.at] != "}" and not (divider and self.text[self.at] == divider):
            char = self.text[self.at]
            if char == "\\" and quoted:
                follower = self.text[self.at + 1 : self.at + 2]
                if follower and follower in '}$`"\\\n':
                    items += [] if follower == "\n" else [Lit(follower, self.at + 1, True)]
                else:
                    items.append(Lit("\\" + follower, self.at, True))
                self.at += 2
            elif char == "$" and quoted:
                items += self._dollar(quoted=True)
            elif char == "`" and quoted:
                items.append(self._backquoted(quoted=True))
            elif quoted and char != '"':
                match = runs.match(self.text, self.at, self.end)
                end = match.end() if match else self.at + 1
                items.append(Lit(self.text[self.at : end], self.at, True))
                self.at = end
            else:
                self._unquoted(items, runs, "word")
        return tuple(items)

    def _arithmetic_end(self, at: int) -> int | None:
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

    def _balanced_brace(self, start: int) -> int:
        close = self.text.find("}", start, self.end)
        if close < 0:
            raise UnclosedError(start, "${")
        return close + 1

    def closing(self, at: int) -> int:
        """Offset of the `)` that ends the statements starting at `at`."""
        start, fresh = at, True
        documents: list[tuple[str, bool]] = []
        scan = Lexer(self.text, at, self.end)
        scan._depth = self._depth
        scan._deeper(at)
        depth = 0
        while scan.at < self.end:
            char = self.text[scan.at]
            if char == ")":
                if depth == 0:
                    return scan.at
                depth, scan.at = depth - 1, scan.at + 1
            elif char == "(":
                depth, scan.at = depth + 1, scan.at + 1
            elif char == "\n":
                scan.at += 1
                for word, dashed in documents:
                    scan.at = document_end(self.text, scan.at, self.end, word, dashed)[1]
                documents = []
            elif char == "#" and fresh:
                newline = self.text.find("\n", scan.at, self.end)
                scan.at = self.end if newline < 0 else newline
            elif char == "<" and (found := here_document(self.text, scan.at)):
                scan.at = found[0]
                documents.append((found[1], found[3]))
            elif char in " \t;&|<>":
                scan.at += 1
            else:
                scan.at = max(scan.at + 1, scan._skip())
            fresh = char in " \t\n;&|("
        raise UnclosedError(start - 2, self.text[start - 2 : start])

    def _skip(self) -> int:
        self.word()
        return self.at


def _ansi_char(match: re.Match[str]) -> str:
    hexadecimal, wide, octal, char = match.groups()
    if hexadecimal or wide:
        char = int(hexadecimal or wide, 16)
        return chr(char) if char not in _HALVES else "\ufffd"
    if octal:
        return chr(int(octal, 8) & 0xFF)
    return _ANSI.get(char) or (char if char in "\\'\"?" else "\\" + char)
