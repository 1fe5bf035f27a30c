"""Here-documents: where one is named, and where its body ends."""

from __future__ import annotations

import re

_HERE = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]*)'|\"([^\"\n]*)\"|(\\?)([\w.!@%+-]+))")


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
