"""One mechanical fix of a launch script, as an edit of its text that is read again to see that it is what was meant.

Quotes, continued lines, arrays and variables stay as somebody wrote them: an edit counts only when every launch then
gets the same words as before, but for the one that was to change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from verlcli.config.problems import Fix

# One word of bash from its first character on, and one inside a string that the shell splits later.
_WORD = re.compile(
    r"(?:[^\s\"'\\$`();|&<>]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*'|\$\{[^}]*\}|\$\(\(.*?\)\)|\$\([^()]*\)|\$[\w@*#?]?)+"
)
_PART = re.compile(r"[^\s\"']+")
_CONTINUED = re.compile(r"[ \t]*\\")
_REST = re.compile(r"[ \t]*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class _Reading:
    """What bash makes of a script, for comparing: each launch's words; everything else that must not change."""

    launches: tuple[tuple[str, ...], ...]
    around: tuple[object, ...]
    errors: int


def fix_script(text: str, file: str, fix: Fix, alike: Collection[str] = ()) -> str | None:
    """The script after `fix`; None when no edit of its text does just that.

    Args:
        text: of the script.
        file: its path, beside which files that it sources are looked for.
        fix: with the place of the word in the text.
        alike: further keys that the same value at the same place mends, for a variable may serve several.
    """
    before, keys = _read(text, file), frozenset({fix.key, *alike})
    for candidate in _candidates(text, fix):
        after = _read(candidate, file)
        if after.around == before.around and after.errors <= before.errors and _as_meant(before, after, fix, keys):
            return candidate
    return None


@lru_cache(maxsize=4)
def _read(text: str, file: str) -> _Reading:
    from verlcli.config.shell import read_script
    from verlcli.config.verl.words import text_with_gaps

    script = read_script(text, file)
    launches = tuple(tuple(map(text_with_gaps, (*launch.words, *launch.lost))) for launch in script.launches)
    environment = [{name: text_with_gaps(word) for name, word in each.environment.items()} for each in script.launches]
    commands = [tuple(map(text_with_gaps, command.words)) for command in script.commands]
    wrappers = [(tuple(map(text_with_gaps, each.wrapper)), each.condition, each.piped_to) for each in script.launches]
    return _Reading(launches, (environment, commands, wrappers), len(script.errors))


def _as_meant(before: _Reading, after: _Reading, fix: Fix, keys: Collection[str]) -> bool:
    """Whether the words of every launch are those of before, or those after the fix; and one launch did change."""
    pairs = list(zip(before.launches, after.launches, strict=False))
    same_count = len(before.launches) == len(after.launches)
    return same_count and before != after and all(old == new or _mended(old, new, fix, keys) for old, new in pairs)


def _mended(old: tuple[str, ...], new: tuple[str, ...], fix: Fix, keys: Collection[str]) -> bool:
    if fix.action == "remove":
        return any(_name(word) == fix.old and (*old[:at], *old[at + 1 :]) == new for at, word in enumerate(old))
    if fix.action == "set" and not fix.old:
        added = f"{fix.key}={hydra_text(fix.to)}"
        absent = all(_name(word).lstrip("+") != fix.key for word in old)
        return absent and any(word == added and (*new[:at], *new[at + 1 :]) == old for at, word in enumerate(new))
    pairs = list(zip(old, new, strict=False))
    return len(old) == len(new) and all(one == other or _changed(one, fix, keys) == other for one, other in pairs)


def _name(word: str) -> str:
    """A word up to its `=`: the key with its prefix."""
    return word.partition("=")[0]


def _changed(word: str, fix: Fix, keys: Collection[str]) -> str | None:
    name, equals, value = word.partition("=")
    if fix.action == "set":
        return f"{name}={hydra_text(fix.to)}" if name.lstrip("+") in keys else None
    return f"{_new_name(fix)}{equals}{value}" if name == fix.old else None


def _new_name(fix: Fix) -> str:
    """The key with its prefix after a rename, or with another prefix."""
    bare = fix.old.lstrip("+~")
    return fix.old[: len(fix.old) - len(bare)] + str(fix.to) if fix.action == "rename" else f"{fix.to}{bare}"


def hydra_text(value: Any) -> str:
    """A value as Hydra reads it."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value)
    return str(value)


def _candidates(text: str, fix: Fix) -> Iterator[str]:
    at = _offset(text, fix)
    if at is None:
        return
    if fix.old and not text.startswith(fix.old, at):
        return  # the text comes from elsewhere, or is spelt in another way
    if fix.action == "remove":
        yield from _without(text, at)
    elif fix.action == "set" and not fix.old:
        yield from _added(text, at, _quoted(f"{fix.key}={hydra_text(fix.to)}"))
    else:
        new = hydra_text(fix.to) if fix.action == "set" else _new_name(fix)
        for spelled in dict.fromkeys((new, _quoted(new))):
            yield text[:at] + spelled + text[at + len(fix.old) :]


def _offset(text: str, fix: Fix) -> int | None:
    lines = text.split("\n")
    row, column = fix.place.line - 1, fix.place.column - 1
    if not 0 <= row < len(lines) or not 0 <= column <= len(lines[row]):
        return None
    return sum(len(line) + 1 for line in lines[:row]) + column


def _quoted(text: str) -> str:
    return f"'{text}'" if re.search(r"[\s\[\]{}*?$\"&|;<>()`~!#]", text) else text


def _words_at(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Start and end of the word in which `at` is the first character, its quote included, then without that quote."""
    quoted = at > 0 and text[at - 1] in "\"'"
    for start, pattern in ((at - quoted, _WORD), (at, _PART)):
        found = pattern.match(text, start)
        if found:
            yield found.start(), found.end()


def _without(text: str, at: int) -> Iterator[str]:
    """The text without a word: with its whole line if it stands alone there, else with the blanks behind it."""
    for start, end in _words_at(text, at):
        top, bottom = text.rfind("\n", 0, start) + 1, _line_end(text, end)
        rest = text[end:bottom]
        if not text[top:start].strip():
            if _CONTINUED.fullmatch(rest):
                yield text[:top] + text[bottom + 1 :]
            elif _REST.fullmatch(rest):
                # The line before it is the last of its command now; in an array it has no backslash.
                above = re.sub(r"[ \t]*\\\n\Z", "\n", text[:top])
                yield above + text[bottom + 1 :]
        if rest.strip():
            yield text[:start] + rest.lstrip(" \t") + text[bottom:]
        yield text[:start].rstrip(" \t") + text[end:]


def _added(text: str, at: int, word: str) -> Iterator[str]:
    """The text with one more word: on a line of its own where its neighbour has one, else before it."""
    for start, end in _words_at(text, at):
        top, bottom = text.rfind("\n", 0, start) + 1, _line_end(text, end)
        indent, rest = text[top:start], text[end:bottom]
        if not indent.strip():
            if _CONTINUED.fullmatch(rest):
                yield f"{text[:bottom]}\n{indent}{word} \\{text[bottom:]}"
            elif text[:top].endswith("\\\n"):
                yield f"{text[:top]}{indent}{word} \\\n{text[top:]}"
            elif _REST.fullmatch(rest):
                yield f"{text[:bottom]}\n{indent}{word}{text[bottom:]}"
        yield f"{text[:start]}{word} {text[start:]}"


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end
