"""Text of a launch script -> its launches, findings and directives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from verlcli.config.shell.directives import read_directives
from verlcli.config.shell.lint import lint_text
from verlcli.config.shell.shell import OutOfStepsError, Shell
from verlcli.config.shell.source import Source
from verlcli.config.shell.statements import run_text
from verlcli.config.shell.syntax import find_errors
from verlcli.config.shell.types import Command, Launch, Place, Script
from verlcli.config.shell.world import World, shared

LARGEST = 1_000_000  # characters


def read_script(text: str, name: str = "run.sh") -> Script:
    """Reads a bash script without running any of it; never raises for what the script says.

    `name` is the script's path: files that it sources are looked for beside it when it exists.
    """
    path = Path(name)
    shell = Shell(name, path.resolve().parent if path.is_file() else None)
    if len(text) > LARGEST:
        shell.limit(Place(1, 1), f"a script of more than {LARGEST} characters")
        return Script((), tuple(shell.findings.values()))
    source = Source.of_file(text)
    try:
        run_text(shell, source, 0, len(source.text), World())
    except (OutOfStepsError, RecursionError):
        message = "the script does more than is followed: launches may be missing"
        shell.find("limit", Place(1, 1), message, "write its loops in a simpler way", "note")
    lint_text(shell, source)
    find_errors(shell, source)
    findings = sorted(shell.findings.values(), key=lambda each: (each.place.line, each.place.column, each.kind))
    return Script(
        launches=_launches(shell),
        findings=tuple(findings),
        directives=read_directives(text),
        commands=_commands(shell),
        errors=tuple(dict.fromkeys(shell.errors)),
    )


def _launches(shell: Shell) -> tuple[Launch, ...]:
    """Each launch once: one that several worlds share stands under the conditions they share."""
    found: dict[object, tuple[tuple[str, ...], Launch]] = {}
    for conditions, launch in shell.launches:
        key = (launch.place, launch.wrapper, launch.words, launch.piped_to)
        found[key] = (shared(found[key][0], conditions), found[key][1]) if key in found else (conditions, launch)
    return tuple(replace(launch, condition=", ".join(conditions)) for conditions, launch in found.values())


def _commands(shell: Shell) -> tuple[Command, ...]:
    found: dict[object, tuple[tuple[str, ...], Command]] = {}
    for conditions, command in shell.commands:
        key = (command.place, command.words)
        found[key] = (shared(found[key][0], conditions), command) if key in found else (conditions, command)
    return tuple(replace(command, condition=", ".join(conditions)) for conditions, command in found.values())
