"""Text that YAML's parser refuses -> the line to blame and what to do there.

The parser stops where the text can no longer be read, which is often a line after the slip. So a slip is found by
trial: the line that, put right, makes the text readable is the one to correct.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from verlcli.config.keys import KeyPath, dotted

_KEY = re.compile(r"( *)(?:- +)?([A-Za-z_][\w.-]*):(?= |$)")
_GLUED = re.compile(r"( *)([A-Za-z_][\w-]*):(?=[^\s:/])")
_MOST_TRIALS = 80
_MOST_CHARACTERS = 100_000  # read in all trials together, some 0.1 s; a preset has 1,500
_LAYOUT_FAULTS = (  # how libyaml and PyYAML's own parser begin
    "mapping values are not allowed",
    "did not find expected key",
    "did not find expected '-' indicator",
    "did not find expected <document start>",
    "could not find expected ':'",
    "expected <block end>",
    "expected '<document start>'",
)

Keys = tuple[KeyPath, ...]
Reader = Callable[[str], "Keys | int"]  # text -> all its keys, or the line (from 0) where reading stops


@dataclass(frozen=True, slots=True)
class Blame:
    """The line (from 1) and column to correct, what is wrong there and what to do."""

    line: int
    column: int
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Trial:
    """Line `line` (from 0), with key `name`, written as `text`; `indent` is None when only a space was missing."""

    line: int
    name: str
    text: str
    indent: int | None
    shift: int


def misplaced_line(
    text: str, stopped: int, problem: str, read: Reader, known: Callable[[KeyPath], bool]
) -> Blame | None:
    """The key whose indentation, or whose missing space after the colon, stops the parser; None when it is none.

    Args:
        text: the file.
        stopped: line (from 0) where the parser gave up.
        problem: the parser's words.
        read: parses a corrected text.
        known: whether a key exists; of several corrections the one with the fewest unknown keys is meant.
    """
    if not problem.startswith(_LAYOUT_FAULTS):
        return None
    lines = text.split("\n")
    most = min(_MOST_TRIALS, _MOST_CHARACTERS // max(len(text), 1))
    ranked = [_rank(lines, trial, stopped, read, known) for trial in islice(_trials(lines, stopped), most)]
    found = [rank for rank in ranked if rank is not None]
    return _blame(lines, *min(found, key=lambda rank: rank[0])[1:]) if found else None


def _trials(lines: list[str], stopped: int) -> Iterator[_Trial]:
    """Corrections of one line up to `stopped`: missing spaces, then other indentations, the closest lines first."""
    matches = [(number, _KEY.match(line), _GLUED.match(line)) for number, line in enumerate(lines[: stopped + 1])]
    keys = [(number, match) for number, match, _ in matches if match]
    glued = [_unglued(lines[number], number, match) for number, _, match in matches if match]
    shifted = [
        trial
        for place in range(len(keys) - 1, max(len(keys) - _MOST_TRIALS, 0) - 1, -1)
        for trial in _shifted(lines[keys[place][0]], *keys[place], [match for _, match in keys[:place]])
    ]
    yield from glued[::-1] + shifted


def _unglued(line: str, number: int, match: re.Match[str]) -> _Trial:
    return _Trial(number, match[2], f"{match[0]} {line[match.end() :]}", None, 1)


def _shifted(line: str, number: int, match: re.Match[str], above: list[re.Match[str]]) -> Iterator[_Trial]:
    """A key beside one of those above it, or two spaces below the last of them."""
    written = len(match[1])
    last = len(above[-1][1]) if above else 0
    indents = {len(other[1]) for other in above[-12:]} | ({last + 2, last - last % 2} if above else {0})
    for indent in sorted(indents - {written}):
        yield _Trial(number, match[2], " " * indent + line.lstrip(), indent, abs(indent - written))


def _rank(
    lines: list[str], trial: _Trial, stopped: int, read: Reader, known: Callable[[KeyPath], bool]
) -> tuple[tuple[int, ...], _Trial, KeyPath] | None:
    """How good a correction is (smaller is better) and the key's full path; None when the text stays unreadable."""
    corrected = [*lines[: trial.line], trial.text, *lines[trial.line + 1 :]]
    keys = read("\n".join(corrected))
    if isinstance(keys, int) and keys > stopped + 1:
        keys = read("\n".join(corrected[: stopped + 1]))  # what is wrong further down is another fault
    if isinstance(keys, int):
        return None
    named = [key for key in keys if key[-1] == trial.name]
    path = next(filter(known, named), named[-1] if named else (trial.name,))
    unknown = sum(not known(key) for key in keys)
    usual = trial.indent in (None, _step(lines) * (len(path) - 1))
    return (unknown, not usual, trial.shift, stopped - trial.line), trial, path


def _step(lines: list[str]) -> int:
    """Spaces a level in most of the text."""
    indents = [len(match[1]) for line in lines if (match := _KEY.match(line))]
    steps = Counter({2: 1})  # what is usual where the text itself does not tell
    steps.update(below - above for above, below in pairwise(indents) if below > above)
    return steps.most_common(1)[0][0]


def _blame(lines: list[str], trial: _Trial, path: KeyPath) -> Blame:
    line, key = lines[trial.line], f"`{trial.name}:`"
    written = len(line) - len(line.lstrip())
    if trial.indent is None:
        message, fix = f"not valid YAML: no space after {key}", f"write `{trial.text.strip()}`"
    else:
        place = f"under `{dotted(path[:-1])}:`" if len(path) > 1 else "at the top level"
        message = f"not valid YAML: {key} is indented by {_spaces(written)}, which does not fit the lines around it"
        fix = f"indent it by {_spaces(trial.indent)} if it belongs {place}"
    return Blame(trial.line + 1, written + 1, message, fix)


def _spaces(count: int) -> str:
    return "no space" if count == 0 else f"{count} space{'s' if count > 1 else ''}"


def hint(line: str, problem: str) -> str:
    """What to do about a text that cannot be read: `problem` are the parser's words, `line` is where it stopped."""
    if line[: len(line) - len(line.lstrip())].count("\t") or "'\\t'" in problem or "tab" in problem:
        return "indent with spaces; YAML does not allow tabs there"
    advice = {
        "mapping values are not allowed": "put the nested key on its own line, or quote a value that contains `: `",
        "undefined alias": "quote a value that starts with `*`, or define the anchor above it",
        "decimal number": "write the character itself, or use single quotes",
        "escape": "write the character itself, or use single quotes",
        "nesting": "flatten it; no key lies that deep",
        "expected ',' or": "close the bracket or quote that is open",
        "quoted scalar": "close the bracket or quote that is open",
        "cannot start any token": "quote the value",
        "expected alphabetic": "quote the value",
    }
    found = (text for words, text in advice.items() if words in problem)
    return next(found, "check the indentation, and quote values with special characters")
