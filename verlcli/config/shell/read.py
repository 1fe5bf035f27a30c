"""Text of a launch script -> its launches, findings and directives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.config.shell.handed import run_unstarted
from verlcli.config.shell.host_lists import lint_host_arrays
from verlcli.config.shell.parts import shown
from verlcli.config.shell.prompts import without_prompts
from verlcli.config.shell.scanner import REFUSED
from verlcli.config.shell.shell import OutOfStepsError, Shell, shortened
from verlcli.config.shell.slurm import read_directives, slurm_variables
from verlcli.config.shell.source import Source
from verlcli.config.shell.statements import run_text
from verlcli.config.shell.types import Command, Launch, Place, Script, Severity
from verlcli.config.shell.world import World, shared
from verlcli.config.shell.zsh import is_for_zsh

if TYPE_CHECKING:
    from tree_sitter import Node

LARGEST = 1_000_000  # characters
_QUOTES = re.compile(r"[“”]|(?<=[=\s(\[,])[‘’]|[‘’](?=[\s,\])]|$)")
_DASH = re.compile(r"(?:(?<=\s)|^)[–—−]+(?=[A-Za-z–—−-])")
_SPACE = re.compile(r"[\u00a0\u2007\u202f\u3000]")
_TYPED = (
    ("smart_quotes", _QUOTES, "is no quote to bash: it becomes a part of the value", "type ' or \" instead"),
    ("nonascii_dash", _DASH, "is no option dash to bash or python", "type - or -- instead"),
    ("nonascii_space", _SPACE, "is no blank to bash: it joins the words around it", "type a plain space instead"),
)
# Inside words the parser knows less of bash than our own reading, which then reports what is wrong.
_STATEMENTS = frozenset(
    (
        "program", "list", "if_statement", "elif_clause", "else_clause", "do_group", "for_statement", "while_statement",
        "case_statement", "case_item", "compound_statement", "subshell", "function_definition",
    )
)  # fmt: skip
_KEYWORDS = frozenset(("fi", "done", "esac", "then", "do", "}", ")", "in", ";;"))


def read_script(text: str, name: str = "run.sh") -> Script:
    """Reads a bash script without running any of it; never raises for what the script says.

    `name` is the script's path: files that it sources are looked for beside it when it exists.
    """
    path = Path(name)
    shell = Shell(name, path.resolve().parent if path.is_file() else None)
    if len(text) > LARGEST:
        shell.limit(Place(1, 1), f"a script of more than {LARGEST} characters")
        return Script((), tuple(shell.findings.values()))
    # What a carriage return does to each line is said once, and all else is judged as if there were none.
    code, prompts = without_prompts(text.replace("\r\n", "\n"))
    source, shell.zsh = Source.of_file(code), is_for_zsh(code)
    for at, prompt in prompts:
        _pasted(shell, source.place(at), prompt)
    shell.directives = directives = read_directives(source)
    try:
        run_text(shell, source, 0, len(source.text), World(slurm_variables(directives)))
        run_unstarted(shell)
    except (OutOfStepsError, RecursionError):
        message = "the script does more than is followed: launches may be missing"
        shell.find("limit", Place(1, 1), message, "write its loops in a simpler way", "note")
    lint_text(shell, text)
    find_errors(shell, source)
    lint_host_arrays(shell, source)
    findings = sorted(shell.findings.values(), key=lambda each: (each.place.line, each.place.column, each.kind))
    return Script(
        launches=_launches(shell),
        findings=tuple(findings),
        directives={name: word for _, launch in shell.launches for name, word in launch.directives.items()}
        | directives,
        commands=_commands(shell),
        errors=tuple(dict.fromkeys(shell.errors)),
    )


def _pasted(shell: Shell, place: Place, prompt: str) -> None:
    message = f"`{prompt}` is the prompt of a terminal that was copied along: bash does not start what is behind it"
    shell.find("prompt", place, message, f"remove the leading `{prompt} `", "error")


def _launches(shell: Shell) -> tuple[Launch, ...]:
    """Each launch once: one that several worlds share stands under the conditions they share."""
    found: list[tuple[tuple[str, ...], Launch]] = []
    switched = any(launch.switched for _, launch in shell.launches)
    usual = {_texts(launch) for _, launch in shell.launches if switched and not launch.switched}
    for conditions, launch in shell.launches:
        if launch.switched and _texts(launch) in usual:
            continue
        number = next((number for number, (_, other) in enumerate(found) if _is_same(launch, other)), None)
        if number is None:
            found.append((conditions, launch))
        else:
            found[number] = shared(found[number][0], conditions), found[number][1]
    return tuple(replace(launch, condition=", ".join(conditions)) for conditions, launch in found)


def _is_same(one: Launch, other: Launch) -> bool:
    """Whether two worlds start the same; they share most words, which makes it quick to tell."""
    return (one.place, one.words, one.wrapper, one.piped_to) == (
        other.place, other.words, other.wrapper, other.piped_to
    )  # fmt: skip


def _texts(launch: Launch) -> tuple[object, ...]:
    return (
        launch.place,
        launch.piped_to,
        *(shown(word.parts) for word in (*launch.wrapper, *launch.words, *launch.lost)),
    )


def _commands(shell: Shell) -> tuple[Command, ...]:
    found: dict[object, tuple[tuple[str, ...], Command]] = {}
    for conditions, command in shell.commands:
        key = (command.place, command.words)
        found[key] = (shared(found[key][0], conditions), command) if key in found else (conditions, command)
    return tuple(
        replace(command, condition=", ".join(conditions)) if conditions else command
        for conditions, command in found.values()
    )


def lint_text(shell: Shell, text: str) -> None:
    """Adds findings about characters that look like others, and about the file's line ends."""
    if text.isascii() and "\r\n" not in text:
        return
    source = Source(text)
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
            yield start, code.rstrip("\r\n")
        start += len(line)


def find_errors(shell: Shell, source: Source) -> None:
    """Adds a finding for the first place among statements where the parser lost its way: there bash stops."""
    pending = [source.tree()]
    while pending and not shell.errors:
        node = pending.pop()
        if node.is_missing and node.type in _KEYWORDS:
            _report(shell, source, node, f"`{node.type}` is missing here")
        elif (
            node.is_error
            and source.text[node.start_byte : node.end_byte].strip("\\ \n\t")
            and not REFUSED.search(source.text, max(0, node.start_byte - 2), node.end_byte)
            and (node.parent is None or node.parent.type in _STATEMENTS)
        ):
            said = shortened(source.text[node.start_byte : node.end_byte], 40)
            _report(shell, source, node, f"bash does not understand `{said}` here")
        elif node.has_error:
            pending += reversed(node.children)


def _report(shell: Shell, source: Source, node: Node, what: str) -> None:
    place = source.place(node.start_byte)
    shell.errors.append(place)
    message = f"{what}: the script stops with a syntax error"
    shell.find("syntax", place, message, "check the quotes and keywords above, or run `bash -n` on the script", "error")
