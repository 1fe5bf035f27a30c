"""A launch over several lines that ends too early: the words that never reach python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from verlcli.config.shell.commands import read_command
from verlcli.config.shell.items import RawWord
from verlcli.config.shell.lexer import UnclosedError
from verlcli.config.shell.shell import shortened

if TYPE_CHECKING:
    from verlcli.config.shell.call import Call

_OVERRIDE = re.compile(r"[\"']?(?:\+\+?|~)?[A-Za-z_][\w@/-]*(?:\.[\w@/-]+)+=|\+[A-Za-z_][\w.]*=|--[a-z]", re.ASCII)
_SIMPLE = re.compile(r"[\"']?[A-Za-z_]\w*=|\"?\$[{@*]?", re.ASCII)
_BETWEEN = re.compile(r"(?:\s|\\\n|#[^\n]*)*")
_MOST_LOST = 2000
_MOST_SHOWN = 6


def lint_broken_lines(call: Call) -> None:
    """Adds a finding when lines below a launch look like the rest of it, or a backslash is not the last in its line."""
    text, end = call.run.source.text, call.command.end
    reason = _reason(text, call.command.start, end)
    lost = _lost(text, end, reason is not None)
    if reason is None and lost:
        at = text.rfind("\n", 0, end) + 1
        column = len(text[at:end].rstrip())
        reason = (
            "missing_continuation",
            at + column,
            "the line has no backslash at its end",
            "end the line with a backslash",
        )
    if reason is None or not (lost or "spaces" in reason[2]):
        return
    kind, at, because, advice = reason
    tail = (
        f": {_listed(lost)} never reach{'es' if len(lost) == 1 else ''} python"
        if lost
        else ": it adds a word that is a blank"
    )
    call.run.shell.find(kind, call.run.source.place(at), because + tail, advice, "error")


def _listed(words: list[str]) -> str:
    shown = ", ".join(f"`{shortened(word, 50)}`" for word in words[:_MOST_SHOWN])
    return shown + (f" and {len(words) - _MOST_SHOWN} more words" if len(words) > _MOST_SHOWN else "")


def _reason(text: str, start: int, end: int) -> tuple[str, int, str, str] | None:
    """Why the command ends where it ends, when that is a slip: kind, offset, sentence and advice."""
    body = text[start:end]
    if trailing := re.search(r"\\[ \t]+$", body):
        because = "there are spaces behind the backslash, so the command ends here"
        return "continuation", start + trailing.start(), because, "delete the spaces behind the backslash"
    if not re.search(r"\\\n[ \t]*$", body):
        return None
    if text.startswith("#", end):
        advice = "move the comment above the command"
        return "continuation", end, "a comment between continued lines ends the command", advice
    at = start + body.rindex("\\\n") + 2
    return "continuation", at, "an empty line between continued lines ends the command", "delete the empty line"


def _lost(text: str, end: int, broken: bool) -> list[str]:
    """Words below the command that were meant for it."""
    words: list[str] = []
    at = end
    while len(words) < _MOST_LOST:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if not (_OVERRIDE.match(text, at) or ((words or broken) and _SIMPLE.match(text, at))):
            break
        try:
            command = read_command(text, at, len(text), plain=True)
        except UnclosedError:
            break
        found = [text[word.start : word.end] for word in command.words if isinstance(word, RawWord)]
        if command.end == at or not found:
            break
        words += found
        at = command.end
    return words
