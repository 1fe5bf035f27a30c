"""Prompts of a terminal that were copied along: `$ python3 …`, `root@host:~# python3 …`, `> key=value`."""

from __future__ import annotations

import re

from verlcli.config.shell.scanner import document_end, here_document

_COMMAND = (
    r"[ \t]+"
    r"(?=(?:[A-Za-z_]\w*=\S*[ \t]+)*(?:export|cd|pip3?|nohup|bash|sh|ray|srun|torchrun|accelerate|python[\d.]*)[ \t])"
)
_START = rf"(?:(?:\([\w.-]+\)[ \t]*)?[\w.-]+@[\w.-]+:\S*[#$%]|[$%>]){_COMMAND}"
_PROMPT, _ON_A_LINE = re.compile(_START, re.ASCII), re.compile(rf"\n{_START}", re.ASCII)
_NEXT = re.compile(r">[ \t]+(?=\S)")
_HERE = re.compile(r"<<-?[ \t]*[\w'\"\\]")


def without_prompts(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The text with blanks in the place of every prompt, and each first prompt of a command with its offset.

    Bodies of here-documents stay as they are.
    """
    if not _ON_A_LINE.search(f"\n{text}"):
        return text, []
    found, kept, at, inside = list[tuple[int, str]](), list[str](), 0, False
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        line = text[at:end]
        prompt = (_NEXT if inside else _PROMPT).match(line)
        if prompt:
            kept.append(" " * prompt.end() + line[prompt.end() :])
            found += [] if inside else [(at, prompt[0].strip())]
        else:
            kept.append(line)
        inside = bool(prompt) and line.rstrip("\n").endswith("\\")
        at = _behind_document(text, at, end)
        kept.append(text[end:at])
    return "".join(kept), found


def _behind_document(text: str, start: int, end: int) -> int:
    """Offset behind the here-documents that the line from `start` to `end` names."""
    at = end
    for match in _HERE.finditer(text, start, end):
        if named := here_document(text, match.start()):
            at = document_end(text, at, len(text), named[1], named[3])[1]
    return at
