"""Text of one simple command -> its assignments, words and redirections."""

from __future__ import annotations

import re

from verlcli.config.shell.items import Assignment, Lit, RawWord, Redirect, SimpleCommand, Template
from verlcli.config.shell.lexer import Lexer
from verlcli.config.shell.scanner import document_end, here_document

DECLARING = frozenset({"export", "declare", "local", "readonly", "typeset"})
_HEAD = re.compile(r"([A-Za-z_]\w*)(\[[^\]\n]*\])?(\+?)=", re.ASCII)
_KEYED = re.compile(r"\[[^\]\n]*\]=")
_REDIRECT = re.compile(r"\d*(?:&>>?|<<<|<>|>>|>\||[<>]&|<(?![<(])|>(?!\())")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n)+")
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")


class _CommandReader:
    def __init__(self, text: str, start: int, end: int, plain: bool) -> None:
        self.plain = plain
        self.lexer = Lexer(text, start, end)
        self.text, self.start, self.end = text, start, end
        self.assignments: list[Assignment] = []
        self.words: list[RawWord | Assignment] = []
        self.redirects: list[Redirect] = []
        self.documents: list[tuple[int, str, bool, bool, int]] = []

    def read(self) -> SimpleCommand:
        while self._skip_blanks() and self._step():
            pass
        end = self.lexer.at
        self._read_documents()
        return SimpleCommand(self.start, end, tuple(self.assignments), tuple(self.words), tuple(self.redirects))

    def _skip_blanks(self) -> bool:
        blank = _BLANK.match(self.text, self.lexer.at, self.end)
        if blank:
            self.lexer.at = blank.end()
        return self.lexer.at < self.end

    def _step(self) -> bool:
        """Reads one part of the command; False at its end."""
        at, text = self.lexer.at, self.text
        char = text[at]
        if char == "#" or char == "\n" or char in ";|)" or (char == "&" and not text.startswith("&>", at)):
            return False
        if char in "<>&0123456789" and self._redirect():
            return True
        declares = self.words and isinstance(self.words[0], RawWord) and _literal(self.words[0]) in DECLARING
        if not self.plain and (not self.words or declares) and (assignment := self._assignment()):
            (self.words if declares else self.assignments).append(assignment)
            return True
        items = self.lexer.word()
        if self.lexer.at == at:
            return False
        if items or not text[at : self.lexer.at].isspace():
            self.words.append(RawWord(at, self.lexer.at, items))
        return True

    def _redirect(self) -> bool:
        at, text = self.lexer.at, self.text
        if found := here_document(text, at + (text[at] == "0")):
            self.lexer.at = found[0]
            self.documents.append((at, *found[1:], len(self.redirects)))
            self.redirects.append(Redirect("<<", (), at))
            return True
        match = _REDIRECT.match(text, at, self.end)
        if not match:
            return False
        self.lexer.at = match.end()
        self._skip_blanks()
        self.redirects.append(Redirect(match[0], self.lexer.word(), at))
        return True

    def _assignment(self) -> Assignment | None:
        at = self.lexer.at
        match = _HEAD.match(self.text, at, self.end)
        if not match:
            return None
        name, index, plus = match.groups()
        self.lexer.at = value_at = match.end()
        subscript = Lexer(self.text, match.start(2) + 1, match.end(2) - 1).arithmetic() if index else None
        if not index and self.text.startswith("(", value_at) and value_at < self.end:
            return Assignment(name, at, value_at, (), self._array(), None, bool(plus))
        return Assignment(name, at, value_at, self.lexer.word(), None, subscript, bool(plus))

    def _array(self) -> tuple[RawWord, ...]:
        """Words between the brackets of `a=(…)`, over any number of lines and comments."""
        self.lexer.at += 1
        words = []
        while self.lexer.at < self.end:
            between = _BLANK_LINES.match(self.text, self.lexer.at, self.end)
            at = self.lexer.at = between.end() if between else self.lexer.at
            if at == self.end:
                break
            if self.text[at] == "#":
                newline = self.text.find("\n", at, self.end)
                self.lexer.at = self.end if newline < 0 else newline
                continue
            if self.text[at] == ")":
                self.lexer.at += 1
                break
            if keyed := _KEYED.match(self.text, at, self.end):
                self.lexer.at = keyed.end()
            items = self.lexer.word()
            if self.lexer.at == at:
                self.lexer.at += 1
            words.append(RawWord(at, self.lexer.at, items))
        return tuple(words)

    def _read_documents(self) -> None:
        """Bodies of here-documents start on the line below the one that names them."""
        if not self.documents:
            return
        newline = self.text.find("\n", self.documents[-1][0], self.end)
        at = self.end if newline < 0 else newline + 1
        for start, word, literal, dashed, number in self.documents:
            stop, after = document_end(self.text, at, self.end, word, dashed)
            self.redirects[number] = Redirect("<<", self._body(at, stop, literal, dashed), start)
            at = after

    def _body(self, start: int, stop: int, literal: bool, dashed: bool) -> Template:
        if dashed:
            lines = self.text[start:stop].splitlines(keepends=True)
            items: list[Lit] = []
            for line in lines:
                kept = line.lstrip("\t")
                items.append(Lit(kept, start + len(line) - len(kept), True))
                start += len(line)
            return tuple(items)
        return (Lit(self.text[start:stop], start, True),) if literal else Lexer(self.text, start, stop).document()


def _literal(word: RawWord) -> str:
    return "".join(item.text for item in word.items if isinstance(item, Lit)) if len(word.items) == 1 else ""


def read_command(text: str, start: int, end: int, plain: bool = False) -> SimpleCommand:
    """The simple command at `start`, up to what ends it: a line's end, `;`, `&`, `|`, `)` or a comment.

    `plain` takes every word as a word, as behind `for x in`. Raises `UnclosedError` for a quote or bracket without end.
    """
    return _CommandReader(text, start, end, plain).read()
