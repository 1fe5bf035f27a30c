"""What a launch's words do not do, though they look like it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from verlcli.config.shell.commands import read_command
from verlcli.config.shell.items import Lit, RawWord
from verlcli.config.shell.lint_words import lint_first_alone, lint_refused
from verlcli.config.shell.scanner import UnclosedError
from verlcli.config.shell.shell import Shell, shortened
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Gap, Launch, Severity, ShellFinding, Word

if TYPE_CHECKING:
    from verlcli.config.shell.shell import Call

_KEY = re.compile(r"[+~]{0,2}[A-Za-z_][\w@/-]*(?:\.[\w@/-]+)*=", re.ASCII)
_SPECIAL = re.compile(r"[\[*?]")
_OVERRIDE = re.compile(r"[\"']?(?:\+\+?|~)?[A-Za-z_][\w@/-]*(?:\.[\w@/-]+)+=|\+[A-Za-z_][\w.]*=|--[a-z]", re.ASCII)
_SIMPLE = re.compile(r"[\"']?[A-Za-z_]\w*=|\"?\$[{@*]?", re.ASCII)
_BETWEEN = re.compile(r"(?:\s|\\\n|#[^\n]*)*")
_NO_MATCH = re.compile(r"^[^#\n]*\bshopt\s+-s\b[^#\n;&|]*\b(nullglob|failglob)\b", re.MULTILINE)
_MOST_LOST = 2000
_MOST_SHOWN = 6


def lint_launch(call: Call, launch: Launch, lost: Sequence[RawWord] = ()) -> None:
    """Adds findings about the words of one launch, those `lost` too, and about what its exit status is worth."""
    _unset(call, launch)
    lint_refused(call, launch)
    _empty(call, launch)
    for raw in (*call.command.words, *lost):
        if isinstance(raw, RawWord):
            lint_quotes(call.run.shell, call.run.source, raw)
            lint_first_alone(call, raw)
    if launch.piped_to == "tee" and not launch.pipefail:
        _tee(call, launch)


def _unset(call: Call, launch: Launch) -> None:
    for word in (*launch.words, *launch.lost):
        for gap in word.gaps:
            _unset_gap(call, gap, _effect(word))
    for gap in call.expander.dropped:
        _unset_gap(call, gap, "the word is left out")


def _effect(word: Word) -> str:
    text = word.text_as_run
    return (
        f"`{shortened(text, 60)}` gets an empty value"
        if _KEY.fullmatch(text)
        else f"the word becomes `{shortened(text, 60)}`"
    )


def _unset_gap(call: Call, gap: Gap, effect: str) -> None:
    if gap.kind == "unset" and gap.variable is not None:
        severity: Severity = "error" if effect.endswith("empty value") else "warning"
        call.run.shell.unset(gap.place, gap.variable, effect, call.world, severity)


def _empty(call: Call, launch: Launch) -> None:
    # Of `key= value` the second word is the value.
    meant = {word.place for word in launch.lost}
    ending = [word for word in launch.words[1:] if word.text_as_run.endswith("=") and word.place not in meant]
    for word in (*ending, *launch.lost):
        key = word.text_as_run
        if key.endswith("=") and word.known and _KEY.fullmatch(key):
            names = [name for name, place in call.expander.empties if place.line == word.place.line]
            because = f": ${names[0]} is set to nothing" if names else ""
            advice = (
                f"give {names[0]} a value, or leave `{key}` out" if names else f"write a value behind `{key}`, or null"
            )
            severity: Severity = "warning" if names else "note"
            call.run.shell.find("empty", word.place, f"`{key}` gets an empty value{because}", advice, severity)


def lint_spaces(call: Call, words: Sequence[Word]) -> list[Word]:
    """Adds findings about `key = value` in a launch; gives the words that were meant, `key=value`."""
    source, meant = call.run.source, list[Word]()
    raws = [raw for raw in call.command.words if isinstance(raw, RawWord)]
    cut_off = {source.place(raw.start) for raw in raws if source.text[raw.end - 1] == "="}
    texts = [*(word.text_as_run for word in words), ""]
    for number in [at for at, text in enumerate(texts) if at and (text[:1] == "=" or text[-1:] == "=")]:
        before, text, after = texts[number - 1 : number + 2]
        ends = text.endswith("=") and words[number].place in cut_off and _KEY.fullmatch(text)
        lonely = ends and after[:1].isalnum() and "=" not in after
        if not lonely and text != "=" and not (text.startswith("=") and "=" not in before):
            continue
        start, end = (number, number + 2) if lonely else (number - 1, number + 1 + (text == "="))
        word = _one_word(words[start:end])
        key, _, value = word.text_as_run.partition("=")
        message = f"spaces around `=` cut `{key}` off from its value: they reach verl as separate words"
        advice = f"write {key}={value} without spaces"
        shell, place = call.run.shell, words[number].place
        shell.find(
            "spaces_around_equals", place, f"{message}; the rest is checked as if they were one", advice, "error"
        )
        meant.append(word)
    return meant


def _one_word(words: Sequence[Word]) -> Word:
    parts = tuple(part for word in words for part in word.parts)
    return Word(words[0].place, parts, any(word.quoted for word in words))


def lint_quotes(shell: Shell, source: Source, raw: RawWord) -> None:
    """Adds findings about brackets and stars that stand outside of quotes in an override."""
    if not _SPECIAL.search(source.text, raw.start, raw.end):
        return
    bare = "".join(item.text for item in raw.items if isinstance(item, Lit) and not item.quoted)
    if not _KEY.match(bare):
        return
    value = bare.partition("=")[2]
    place, written = source.place(raw.start), shortened(source.text[raw.start : raw.end], 60)
    if "[" in value and re.search(r"=[^'\"$]*\[[^$]*?['\"]", written):
        received = "".join(item.text if isinstance(item, Lit) else "…" for item in raw.items)
        message = f"bash takes the inner quotes of `{written}` off: verl receives `{shortened(received, 60)}`"
        advice = "put the whole word in the other kind of quotes"
        meant = source.text[raw.start : raw.end]
        shell.add(ShellFinding("unquoted_list", place, message, advice, "note", meant, received))
    elif re.search(r"[*?]|\[.*\]", value) and (option := _NO_MATCH.search(source.text)):
        # Without these options a pattern that fits no file stays as it is, and no file has a name with key= in it.
        effect = "drops it" if option[1] == "nullglob" else "stops here"
        message = f"`{written}` is a pattern to bash, which {effect} with {option[1]}, as no file fits it"
        shell.find("unquoted_glob", place, message, "put the word in single quotes")


def _tee(call: Call, launch: Launch) -> None:
    used = call.run.shell.status_used or "errexit" in call.world.options or "$?" in call.run.source.text
    message = "the exit status of this pipeline is that of tee: a failed training looks like a success"
    severity: Severity = "warning" if used else "note"
    call.run.shell.find("tee_hides_status", launch.place, message, "write `set -o pipefail` near the top", severity)


def lint_assignment_with_spaces(call: Call) -> bool:
    """Adds a finding for `X = 5`, which runs a program named X; tells whether it was one."""
    words = call.words
    name = words[0].text or ""
    if len(words) < 2 or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not words[1].text_as_run.startswith("="):
        return False
    value = "".join(word.text_as_run for word in words[1:3]).lstrip("=")
    message = f"bash runs a program named {name} here: an assignment has no spaces around its `=`"
    call.run.shell.find("spaces_around_equals", words[0].place, message, f"write {name}={value}", "error")
    return True


def lint_broken_lines(call: Call) -> list[RawWord]:
    """Adds a finding when lines below a launch look like the rest of it, or a backslash is not the last in its line.

    Gives the words that bash does not take for the launch.
    """
    text, end = call.run.source.text, call.command.end
    reason = _reason(text, call.command.start, end)
    lost = _lost(text, end, reason is not None)
    reason = reason or (_no_backslash(text, end) if lost else None)
    if reason is None or not (lost or "spaces" in reason[2]):
        return []
    kind, at, because, advice = reason
    tail = _never_read([text[word.start : word.end] for word in lost]) if lost else "it adds a word that is a blank"
    call.run.shell.find(kind, call.run.source.place(at), f"{because}: {tail}", advice, "error")
    return lost


def _no_backslash(text: str, end: int) -> tuple[str, int, str, str]:
    at = text.rfind("\n", 0, end) + 1
    column = len(text[at:end].rstrip())
    because, advice = "the line has no backslash at its end", "end the line with a backslash"
    return "missing_continuation", at + column, because, advice


def _never_read(words: list[str]) -> str:
    never, they = ("never reaches", "it") if len(words) == 1 else ("never reach", "they")
    return f"{_listed(words)} {never} python; the rest is checked as if {they} did"


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


def _lost(text: str, end: int, broken: bool) -> list[RawWord]:
    """Words below the command that were meant for it."""
    words: list[RawWord] = []
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
        found = [word for word in command.words if isinstance(word, RawWord)]
        if command.end == at or not found:
            break
        words += found
        at = command.end
    return words
