"""Characters of a word -> its items: quotes taken off, `$…` taken apart, nothing evaluated."""

from __future__ import annotations

import re

from verlcli.config.shell.items import Arith, Item, Lit, Param, Subst, Template, Unread
from verlcli.config.shell.scanner import Scanner, UnclosedError, document_end, here_document

_MOST_ITEMS = 20_000  # of one word
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


class Lexer(Scanner):
    """Reads words at a position that moves on."""

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
                items += self.group()
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

    def _process(self) -> Unread:
        start = self.at
        self.at = self.closing(start + 2) + 1
        return Unread("a file that bash makes from a command's output", start, False)

    def _unquoted(self, items: list[Item], runs: re.Pattern[str], mode: str) -> None:
        char, at = self.text[self.at], self.at
        if char == "'":
            items.append(self.single())
        elif char == '"':
            items += self._double()
        elif char == "$":
            items += self._dollar(quoted=False)
        elif char == "`":
            items.append(self.backquoted(quoted=False))
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

    def _double(self) -> list[Item]:
        start = self.at
        self.at += 1
        self.deeper(start)
        items = self._until('"', "quote", _RUNS["quote"])
        self.depth -= 1
        if self.at >= self.end:
            raise UnclosedError(start, '"')
        self.at += 1
        return items or [Lit("", start + 1, True)]

    def _until(self, stop: str, mode: str, runs: re.Pattern[str]) -> list[Item]:
        """Items of quoted text up to the character `stop`, which stays to be read."""
        items: list[Item] = []
        while self.at < self.end and not (stop and self.text[self.at] == stop):
            char, at = self.text[self.at], self.at
            if char == "$":
                items += self._dollar(quoted=True)
            elif char == "`":
                items.append(self.backquoted(quoted=True))
            elif char == "\\":
                items += self.escaped(mode)
            else:
                match = runs.match(self.text, at, self.end)
                self.at = match.end() if match else at + 1
                items.append(Lit(self.text[at : self.at], at, True))
        return items

    def _dollar(self, quoted: bool) -> list[Item]:
        text, start = self.text, self.at
        if text.startswith("$((", start) and (close := self.arithmetic_end(start + 3)) is not None:
            body = Lexer(text, start + 3, close)
            body.depth = self.depth
            body.deeper(start)
            self.at = close + 2
            return [Arith(body.arithmetic(), start, quoted)]
        if text.startswith("$(", start):
            close = self.closing(start + 2)
            self.at = close + 1
            return [Subst(start + 2, close, start, quoted)]
        if text.startswith("${", start):
            return [self._braced(quoted)]
        if not quoted and text.startswith("$'", start):
            return [self.ansi()]
        if not quoted and text.startswith('$"', start):
            self.at += 1
            return self._double()
        match = _SHORT_PARAMETER.match(text, start + 1, self.end)
        if not match:
            self.at += 1
            return [Lit("$", start, quoted)]
        self.at = match.end()
        return [Param(match[0], start, quoted, bare=True)]

    def _braced(self, quoted: bool) -> Item:
        start = self.at
        self.deeper(start)
        self.at += 2
        item = self._parameter(start, quoted)
        self.depth -= 1
        if item is None or not self.text.startswith("}", self.at) or self.at >= self.end:
            return self.unread(start, quoted)
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
        inner.depth = self.depth
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
                items.append(self.backquoted(quoted=True))
            elif quoted and char != '"':
                match = runs.match(self.text, self.at, self.end)
                end = match.end() if match else self.at + 1
                items.append(Lit(self.text[self.at : end], self.at, True))
                self.at = end
            else:
                self._unquoted(items, runs, "word")
        return tuple(items)

    def closing(self, at: int) -> int:
        """Offset of the `)` that ends the statements starting at `at`, behind `$(` or `<(`."""
        scan = Lexer(self.text, at, self.end)
        scan.depth = self.depth
        scan.deeper(at)
        brackets, fresh, documents = 0, True, list[tuple[str, bool]]()
        while scan.at < self.end:
            char = self.text[scan.at]
            if char == ")" and brackets == 0:
                return scan.at
            brackets += {"(": 1, ")": -1}.get(char, 0)
            scan._pass(char, fresh, documents)
            fresh = char in " \t\n;&|("
        raise UnclosedError(at - 2, self.text[at - 2 : at])

    def _pass(self, char: str, fresh: bool, documents: list[tuple[str, bool]]) -> None:
        """Moves over a mark, a word, a comment, or the bodies of here-documents at the end of their line."""
        if char == "\n":
            self.at += 1
            for word, dashed in documents:
                self.at = document_end(self.text, self.at, self.end, word, dashed)[1]
            documents.clear()
        elif char == "#" and fresh:
            newline = self.text.find("\n", self.at, self.end)
            self.at = self.end if newline < 0 else newline
        elif char == "<" and (found := here_document(self.text, self.at)):
            self.at = found[0]
            documents.append((found[1], found[3]))
        elif char in " \t;&|<>()":
            self.at += 1
        else:
            start = self.at
            self.word()
            self.at = max(start + 1, self.at)
