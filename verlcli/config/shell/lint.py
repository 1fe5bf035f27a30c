"""What a launch's words do not do, though they look like it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from verlcli.config.shell.items import Lit, RawWord
from verlcli.config.shell.shell import Shell, shortened
from verlcli.config.shell.source import Source
from verlcli.config.shell.types import Gap, Launch, Severity, Word

if TYPE_CHECKING:
    from verlcli.config.shell.call import Call

_KEY = re.compile(r"[+~]{0,2}[A-Za-z_][\w@/-]*(?:\.[\w@/-]+)*=", re.ASCII)


def lint_launch(call: Call, launch: Launch) -> None:
    """Adds findings about the words of one launch and about what its exit status is worth."""
    _unset(call, launch)
    _empty(call, launch)
    _spaces(call, launch)
    for raw in call.command.words:
        if isinstance(raw, RawWord):
            lint_quotes(call.run.shell, call.run.source, raw)
    if launch.piped_to == "tee" and not launch.pipefail:
        _tee(call, launch)


def _unset(call: Call, launch: Launch) -> None:
    for word in launch.words:
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
    for word in launch.words[1:]:
        if word.known and _KEY.fullmatch(word.text_as_run):
            key = word.text_as_run
            names = [name for name, place in call.expander.empties if place.line == word.place.line]
            because = f": ${names[0]} is set to nothing" if names else ""
            advice = (
                f"give {names[0]} a value, or leave `{key}` out" if names else f"write a value behind `{key}`, or null"
            )
            severity: Severity = "warning" if names else "note"
            call.run.shell.find("empty", word.place, f"`{key}` gets an empty value{because}", advice, severity)


def _spaces(call: Call, launch: Launch) -> None:
    source = call.run.source
    raws = [raw for raw in call.command.words if isinstance(raw, RawWord)]
    cut_off = {source.place(raw.start) for raw in raws if source.text[raw.end - 1] == "="}
    texts = [*(word.text_as_run for word in launch.words), ""]
    for number in range(1, len(launch.words)):
        before, text, after = texts[number - 1 : number + 2]
        place = launch.words[number].place
        lonely = place in cut_off and _KEY.fullmatch(text) and after[:1].isalnum() and "=" not in after
        if not lonely and text != "=" and not (text.startswith("=") and "=" not in before):
            continue
        key, value = (text, after) if lonely else (before, text.lstrip("=") or after)
        key = key.rstrip("=")
        message = f"spaces around `=` cut `{key}` off from its value: they reach verl as separate words"
        call.run.shell.find("spaces_around_equals", place, message, f"write {key}={value} without spaces", "error")


def lint_quotes(shell: Shell, source: Source, raw: RawWord) -> None:
    """Adds findings about brackets and stars that stand outside of quotes in an override."""
    bare = "".join(item.text for item in raw.items if isinstance(item, Lit) and not item.quoted)
    if not _KEY.match(bare):
        return
    value = bare.partition("=")[2]
    place, written = source.place(raw.start), shortened(source.text[raw.start : raw.end], 60)
    if "[" in value and re.search(r"=[^'\"$]*\[[^$]*?['\"]", written):
        received = "".join(item.text if isinstance(item, Lit) else "…" for item in raw.items)
        message = f"bash takes the inner quotes of `{written}` off: verl receives `{shortened(received, 60)}`"
        shell.find("unquoted_list", place, message, "put the whole word in the other kind of quotes", "note")
    elif re.search(r"[*?]|\[.*\]", value):
        message = f"`{written}` is a pattern to bash: a file whose name fits it would take its place"
        shell.find("unquoted_glob", place, message, "put the word in single quotes", "note")


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


_QUOTES = re.compile(r"[“”]|(?<=[=\s(\[,])[‘’]|[‘’](?=[\s,\])]|$)")
_DASH = re.compile(r"(?:(?<=\s)|^)[–—−]+(?=[A-Za-z–—−-])")
_SPACE = re.compile(r"[\u00a0\u2007\u202f\u3000]")
_TYPED = (
    ("smart_quotes", _QUOTES, "is no quote to bash: it becomes a part of the value", "type ' or \" instead"),
    ("nonascii_dash", _DASH, "is no option dash to bash or python", "type - or -- instead"),
    ("nonascii_space", _SPACE, "is no blank to bash: it joins the words around it", "type a plain space instead"),
)


def lint_text(shell: Shell, source: Source) -> None:
    """Adds findings about characters that look like others, and about the file's line ends."""
    text = source.text
    if text.startswith("\ufeff"):
        message = "the file starts with an invisible mark (BOM): its first line is no `#!` line and not read as written"
        shell.find("bom", source.place(0), message, "save it as UTF-8 without BOM", "error")
    if (at := text.find("\r\n")) >= 0:
        message = "the file has Windows line ends: bash takes each CR as a part of the word before it"
        shell.find("crlf", source.place(at), message, "run dos2unix on it, or save it with LF line ends", "error")
    if text.isascii():
        return
    for start, line in _code_lines(text):
        for kind, pattern, what, advice in _TYPED:
            if found := pattern.search(line):
                message = f"{found[0]!r} {what}"
                severity: Severity = "note" if line.lstrip().startswith(("echo", "printf")) else "error"
                shell.find(kind, source.place(start + found.start()), message, advice, severity)


def _code_lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.splitlines(keepends=True):
        code = re.sub(r"(?:^|\s)#.*", "", line, flags=re.DOTALL)
        if code.strip() and not line.isascii():
            yield start, code.rstrip("\n")
        start += len(line)
