"""Text of a script -> its syntax tree, and the place of every character in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from functools import cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from verlcli.config.shell.types import Gap, Piece, Place, Word, moved

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SEVERAL = re.compile(r"^[ \t]*[A-Za-z_]\w*=.*[ \t][A-Za-z_]\w*=", re.MULTILINE | re.ASCII)
_LINE_END = re.compile(r"(?<!\\)\n")
_MOST_ROUNDS = 4
# Characters that no script has stand for the gaps of a composed text, each for the one of its number.
_FIRST_MARK, _MOST_MARKS = 0xF0000, 0xFFFE
_MARK = re.compile("[\U000f0000-\U000ffffd]")


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class Source:
    """A text to be read as bash; offsets count its characters."""

    def __init__(
        self,
        text: str,
        runs: tuple[tuple[int, Piece], ...] = (),
        fixed: Place | None = None,
        gaps: tuple[Gap, ...] = (),
    ) -> None:
        """`runs` are the pieces a composed text is made of, by offset; `fixed` is that of a foreign text.

        `gaps` are what the marks in the text stand for.
        """
        self.text, self.gaps = text, gaps
        # The parser counts bytes, we count characters; to bash every character beyond ASCII is part of a word.
        self._bytes = (text if text.isascii() else _NOT_ASCII.sub("@", text)).encode()
        lengths = (len(line) + 1 for line in text.split("\n")[:-1])
        self._lines = list(accumulate(lengths, initial=0))  # where each one starts
        self._runs = runs
        self._starts = [start for start, _ in runs]
        self._fixed = fixed
        self.composed = bool(runs)
        self.cache: dict[Any, Any] = {}

    @classmethod
    def of_word(cls, word: Word) -> Source:
        """The text of a word, such as the argument of `bash -c`, where each character keeps its own place."""
        runs, length, gaps = list[tuple[int, Piece]](), 0, list[Gap]()
        for part in word.parts:
            if isinstance(part, Gap):
                gaps.append(part)
                mark = chr(_FIRST_MARK + min(len(gaps), _MOST_MARKS) - 1)
                part = Piece(mark, part.place, part.variable)
            runs.append((length, part))
            length += len(part.text)
        text = "".join(piece.text for _, piece in runs)
        return cls(text, tuple(runs), None if runs else word.place, tuple(gaps))

    def parts(self, text: str, at: int) -> list[Piece | Gap]:
        """A text that stands at `at`, in the pieces it was composed of, with the gaps that its marks stand for."""
        if not self._runs or not self.text.startswith(text, at):
            return [Piece(text, self.place(at))] if text else []
        found = list[Piece | Gap]()
        number, end = max(0, bisect_right(self._starts, at) - 1), at + len(text)
        while at < end:
            start, piece = self._runs[number]
            number += 1
            stop = min(end, start + len(piece.text))
            if stop > at:
                found.append(self._gap(piece.text) or replace(piece, text=self.text[at:stop], place=self.place(at)))
                at = stop
        return found

    def _gap(self, text: str) -> Gap | None:
        number = ord(text) - _FIRST_MARK if len(text) == 1 else -1
        return self.gaps[number] if 0 <= number < len(self.gaps) else None

    @classmethod
    def of_file(cls, text: str, fixed: Place | None = None) -> Source:
        """The text of a file, where bash drops a backslash that is the very last character."""
        last = len(text) - len(text.rstrip("\\"))
        return cls(text[:-1] if last % 2 else text, fixed=fixed)

    def place(self, offset: int) -> Place:
        """Where the character at `offset` stands in the script."""
        if self._fixed:
            return self._fixed
        if self._runs:
            start, piece = self._runs[max(0, bisect_right(self._starts, offset) - 1)]
            return moved(piece.place, piece.text[: offset - start])
        line = bisect_right(self._lines, offset)
        return Place(line, offset - self._lines[line - 1] + 1)

    def tree(self, start: int = 0, end: int | None = None) -> Node:
        """Syntax tree of the whole text, or of the part of it inside `$(…)`; its offsets are those of the text."""
        end = len(self.text) if end is None else end
        key = ("tree", start, end)
        if key not in self.cache:
            self.cache[key] = self._parse(start, end)
        tree: Node = self.cache[key]
        return tree

    def _parse(self, start: int, end: int) -> Node:
        root = self._parsed(start, end)
        if not _SEVERAL.search(self.text, start, end):
            return root
        for _ in range(_MOST_ROUNDS):
            joints = _joints(root, self.text)
            if not joints:
                break
            separated = bytearray(self._bytes)
            for at in joints:
                separated[at] = ord(";")
            self._bytes = bytes(separated)
            root = self._parsed(start, end)
        return root

    def _parsed(self, start: int, end: int) -> Node:
        from tree_sitter import Range

        parser = _parser()
        if start == 0 and end == len(self.text):
            return parser.parse(self._bytes).root_node
        parser.included_ranges = [Range((0, start), (0, end), start, end)]
        try:
            return parser.parse(self._bytes).root_node
        finally:
            parser.reset()
            parser.included_ranges = []


def without_marks(text: str) -> str:
    """The text as it is shown to people, `…` in the place of every gap."""
    return text if text.isascii() else _MARK.sub("…", text)


def _joints(root: Node, text: str) -> list[int]:
    """Offsets behind assignments that the parser joins to the line below, as it may when a line has several."""
    found, pending = list[int](), [root]
    while pending:
        node = pending.pop()
        if node.type not in ("command", "variable_assignments"):
            pending += node.named_children
            continue
        for child, follower in pairwise(node.children):
            gap = text[child.end_byte : follower.start_byte]
            if child.type == "variable_assignment" and (follower.type == "comment" or _LINE_END.search(gap)):
                found.append(child.end_byte)
    return found
