"""One word of a launch -> Setting, with the place of its key and of the text that its value came from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from verlcli.config.problems import Place, Problem
from verlcli.config.quick import dataclass
from verlcli.config.shell import Gap, Piece, Word
from verlcli.config.shell import Place as ShellPlace
from verlcli.config.verl.casts import Sweep
from verlcli.config.verl.overrides import OverrideSyntaxError, parse_override
from verlcli.config.verl.settings import UNKNOWN, Setting
from verlcli.config.verl.values import ValueSyntaxError, parse_value

# Stands for a gap while the grammar reads the rest: a plain name in Hydra's eyes, and in nobody's script.
_MARK = "zGAP{}z"
_TYPED = re.compile(r"[“”\u00a0\u2007\u202f\u3000]|(?<=[=\s(\[,])[‘’]|[‘’](?=[\s,\])]|$)")
_DASH = re.compile(r"[–—−]+(?=[A-Za-z–—−-])")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one word says: a setting, a problem, or neither when only a run can tell."""

    setting: Setting | None = None
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class _Spelled:
    text: str
    gaps: dict[str, Gap]  # by the mark that stands for it


@dataclass(frozen=True, slots=True)
class _Spot:
    part: Piece | Gap | None  # None: behind the last one
    offset: int  # in its text, or in the mark that stands for it


def read_word(word: Word, file: str, multirun: bool = False, in_shell: bool = True) -> Reading:
    """Read a word of Hydra's command line.

    A value with a part that is known at run time only is `UNKNOWN`, except for a path such as `$HOME/models/x`, which
    tells enough: it keeps its text, and `reason` says what is open.

    Args:
        word: as Hydra receives it.
        file: it stands in.
        multirun: whether it may hold several values; the setting takes the first one, see `sweep_values`.
        in_shell: whether the reader of the script reports typographic quotes, dashes and blanks by itself.
    """
    spelled = _spelled(word)
    name, equals, _ = spelled.text.partition("=")
    if _in(name, spelled.gaps):
        return Reading()
    if not name.strip() and not equals:
        return Reading()  # a backslash and a space, which the shell reader reports
    if not equals and not name.startswith("~"):
        return Reading(problem=_no_override(word, file, name))
    try:
        found = parse_override(spelled.text)
    except OverrideSyntaxError as error:
        if in_shell and _is_typographic(spelled.text, error.offset):
            return Reading(_unread(word, file, error.key))
        return Reading(problem=_unreadable(word, file, error, spelled))
    if not found.key:
        return Reading(problem=_no_key(word, file))
    if isinstance(found.value, Sweep) and not multirun:
        return Reading(problem=_sweep(word, file, found.key, found.raw))
    value, open_part = _value(_first(found.value), spelled.gaps)
    gap = word.gaps[0] if word.gaps else None
    key = f"{found.key}@{found.package}" if found.package is not None else found.key
    of_key, of_value = _part_at(word, 0), _part_at(word, found.offset)
    return Reading(
        Setting(
            key,
            value,
            _place(word, of_key, file),
            _place(word, of_value, file),
            found.prefix,
            _shown(found.raw, spelled.gaps),
            key,
            of_value.part.variable if of_value.part else None,
            _reason(value, open_part, gap),
            of_key.part.variable if of_key.part else None,
            default=any(isinstance(part, Piece) and part.default for part in word.parts),
        )
    )


def sweep_values(setting: Setting) -> tuple[Any, ...]:
    """Every value of a setting that `--multirun` varies; the setting itself holds the first one. Empty for others."""
    if "," not in setting.raw and "(" not in setting.raw:
        return ()
    try:
        found = parse_value(setting.raw.lstrip(" \t"))
    except ValueSyntaxError:
        return ()
    return found.values or (UNKNOWN,) if isinstance(found, Sweep) else ()


def _first(value: Any) -> Any:
    """What stands for a sweep: its first value, as far as it is spelt out."""
    if not isinstance(value, Sweep):
        return value
    return value.values[0] if value.values else UNKNOWN


def _reason(value: Any, open_part: bool, gap: Gap | None) -> str:
    if gap is not None:
        return gap.reason if value is UNKNOWN or open_part else ""
    return "a sweep" if value is UNKNOWN else ""


def place_at(word: Word, offset: int, file: str) -> Place:
    """Place of the character at `offset` of the word, every gap counting as its mark does."""
    return _place(word, _part_at(word, offset), file)


def _place(word: Word, at: _Spot, file: str) -> Place:
    if at.part is None:
        return Place(file, word.place.line, word.place.column)
    inside = 0 if isinstance(at.part, Gap) or "\n" in at.part.text[: at.offset] else at.offset
    return Place(file, at.part.place.line, at.part.place.column + inside)


def _part_at(word: Word, offset: int) -> _Spot:
    for number, part in enumerate(word.parts):
        length = len(_MARK.format(number)) if isinstance(part, Gap) else len(part.text)
        if offset < length:
            return _Spot(part, offset)
        offset -= length
    return _Spot(None, 0)


def text_with_gaps(word: Word) -> str:
    """The word's text with `$NAME` for every gap, for messages."""
    return "".join(_gap_text(part) if isinstance(part, Gap) else part.text for part in word.parts)


def _spelled(word: Word) -> _Spelled:
    if not word.gaps:
        return _Spelled(word.text_as_run, {})
    texts, gaps = [], {}
    for number, part in enumerate(word.parts):
        if isinstance(part, Gap):
            gaps[_MARK.format(number)] = part
            texts.append(_MARK.format(number))
        else:
            texts.append(part.text)
    return _Spelled("".join(texts), gaps)


def _gap_text(gap: Gap) -> str:
    return f"${gap.variable}" if gap.variable else "$(...)"


def _shown(text: str, gaps: dict[str, Gap]) -> str:
    for mark, gap in gaps.items():
        text = text.replace(mark, _gap_text(gap))
    return text


def _value(value: Any, gaps: dict[str, Gap]) -> tuple[Any, bool]:
    """The value with its gaps shown, and whether it has any; `UNKNOWN` where one is more than the start of a path."""
    if isinstance(value, (list, dict)):
        items = [_value(item, gaps) for item in (value.values() if isinstance(value, dict) else value)]
        if any(item is UNKNOWN for item, _ in items) or (
            isinstance(value, dict) and any(_in(key, gaps) for key in value)
        ):
            return UNKNOWN, True
        plain = [item for item, _ in items]
        made: Any = dict(zip(value, plain, strict=True)) if isinstance(value, dict) else plain
        return made, any(has_gap for _, has_gap in items)
    if not _in(value, gaps):
        return value, False
    first = next(mark for mark in gaps if mark in value)
    return (_shown(value, gaps), True) if "/" in value[value.index(first) + len(first) :] else (UNKNOWN, True)


def _in(value: Any, gaps: dict[str, Gap]) -> bool:
    return bool(gaps) and isinstance(value, str) and any(mark in value for mark in gaps)


def _no_override(word: Word, file: str, text: str) -> Problem:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    message = f"'{shown}' is neither key=value nor an option that Hydra knows, so that the launch stops at once"
    problem = Problem("VRL335", "error", "", message, suggestion="write key=value, or remove it")
    return problem.at(place_at(word, 0, file))


def _no_key(word: Word, file: str) -> Problem:
    message = f"'{text_with_gaps(word)[:60]}' is an override without a key, so that the launch stops at once"
    return Problem("VRL335", "error", "", message, suggestion="write key=value").at(place_at(word, 0, file))


def _is_typographic(text: str, at: int) -> bool:
    """Whether Hydra stumbles over a character that the reader of the script reports as typed by a word processor."""
    return bool(_TYPED.match(text, at) or _DASH.match(text))


def _unread(word: Word, file: str, key: str) -> Setting | None:
    """The key counts as set, to something: nothing more is said about it."""
    if not key:
        return None
    place = place_at(word, 0, file)
    return Setting(key, UNKNOWN, place, place, written=key, reason="a character in it is not what it looks like")


def _unreadable(word: Word, file: str, error: OverrideSyntaxError, spelled: _Spelled) -> Problem:
    message = f"Hydra cannot read this: {_shown(error.message, spelled.gaps)}"
    fix = _shown(error.fix, spelled.gaps) if error.fix else None
    key = error.key or spelled.text.partition("=")[0].strip()
    return Problem("VRL333", "error", key, message, suggestion=fix).at(place_at(word, error.offset, file))


def _sweep(word: Word, file: str, key: str, raw: str) -> Problem:
    message = f"'{raw}' is a choice of several values, which Hydra takes with --multirun only"
    fix = f"for a list write '{key}=[{raw}]', for text \"{key}='{raw}'\"" if "(" not in raw else "write one value"
    offset = _spelled(word).text.index("=") + 1
    return Problem("VRL334", "error", key, message, suggestion=fix).at(place_at(word, offset, file))


def command_line_settings(overrides: Sequence[str]) -> tuple[tuple[Setting, ...], list[Problem]]:
    """Settings of overrides that stand on this program's own command line, labelled `-o #N`, and their problems."""
    settings, problems = [], []
    for number, text in enumerate(overrides, start=1):
        start = ShellPlace(1, 1)
        reading = read_word(Word(start, (Piece(text, start),)), "", in_shell=False)
        place = Place(origin=f"-o #{number}")
        if reading.setting:
            settings.append(replace(reading.setting, place=place, value_place=place))
        if reading.problem:
            problems.append(reading.problem.at(place))
    return tuple(settings), problems
