"""`verl validate FILE...`: every problem of every config, Hydra YAML or launch script at once."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from verlcli.cli.completion import complete_config, complete_version
from verlcli.cli.console import log, warn, write, write_json
from verlcli.cli.options import ClusterOption, Json, Overrides

if TYPE_CHECKING:
    from verlcli.config import Problem
    from verlcli.config.context import Asked, Context, DataFacts
    from verlcli.config.fix import Fixed


class Format(str, Enum):
    """How problems are printed."""

    text = "text"
    json = "json"
    github = "github"


def validate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="YAML files, presets' names, verl's Hydra YAMLs or launch scripts (.sh), each checked on its own; "
            "- reads stdin.",
            autocompletion=complete_config,
        ),
    ],
    override: Overrides = None,
    cluster: ClusterOption = None,
    data: Annotated[bool, typer.Option("--data", help="Read the training data too: columns, rows, lengths.")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Mend what is mechanical; shows the diff first.")] = False,
    verl_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="verl that will run it, 0.9.1 unless said otherwise.",
            autocompletion=complete_version,
        ),
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="How problems are printed.")] = Format.text,
    json_output: Json = False,
) -> None:
    """Check configs and verl launch scripts: every problem at once, with its place and what to write instead.

    Nothing is executed. Exit code 1 means problems, 2 that a file cannot be read.
    """
    from verlcli.config.check_file import check_file
    from verlcli.config.report import has_errors
    from verlcli.errors import ConfigError

    if fix and "-" in files:
        raise ConfigError("--fix has no file to change there", where="-", fix="name the file, or leave --fix out")
    context = _context(cluster, verl_version, data=data)
    gc.set_threshold(50_000)  # a full collection takes as long as a script, and little here is cyclic
    found = {file: _problems(file, override or [], context) for file in files}
    if fix and _fix(found, lambda file: check_file(file, override or [], context)):
        found = {file: _problems(file, override or [], context) for file in files}
    problems = list(dict.fromkeys(problem for of_file in found.values() for problem in of_file))
    _print(problems, Format.json if json_output else output_format)
    if any(problem.code == "VRL000" for problem in problems):
        raise typer.Exit(2)
    if has_errors(problems):
        raise typer.Exit(1)


def _context(cluster: str | None, verl_version: str | None, *, data: bool) -> Context:
    from verlcli.config.context import Context

    if verl_version is not None:
        from verlcli.facts.verl.versions import nearest_version

        known = nearest_version(verl_version)
        if known != verl_version:
            warn(f"verl {verl_version} has no table of its own: checked as {known}")
        verl_version = known
    if cluster is None:
        return Context(verl_version=verl_version, read_data=_read_data if data else None)
    from verlcli.facts import parse_cluster

    return Context(parse_cluster(cluster), None, verl_version, _read_data if data else None)


def _read_data(asked: Asked) -> DataFacts:
    from verlcli.engine.data.facts import data_facts

    return data_facts(asked)


def _problems(file: str, overrides: list[str], context: Context) -> list[Problem]:
    from verlcli.config.check_file import check_file
    from verlcli.config.report import unreadable
    from verlcli.errors import ConfigError

    try:
        return check_file(file, overrides, context)
    except ConfigError as error:
        return [unreadable(error, file)]


def _fix(found: dict[str, list[Problem]], check: Callable[[str], list[Problem]]) -> bool:
    """Write the mended files; whether any changed."""
    from verlcli.config.fix import fix_file

    fixes = [fixed for file, problems in found.items() if (fixed := fix_file(file, problems, check)) is not None]
    written = [_written(fixed) for fixed in fixes]
    return any(written)


def _written(fixed: Fixed) -> bool:
    """Show what would change, and write it unless somebody says no."""
    from verlcli.config.fix import diff_of
    from verlcli.config.report import count

    for problem in fixed.left:
        log(f"not mended, as the edit is not certain or would bring another error: {problem}")
    if not fixed.made:
        return False
    log(diff_of(fixed.before, fixed.text, fixed.path).removesuffix("\n"))
    if not _agreed(fixed.path):
        log(f"{fixed.path}: left as it is")
        return False
    fixed.write()
    log(f"{fixed.path}: {count(fixed.made)} mended")
    return True


def _agreed(file: str) -> bool:
    """Ask where there is somebody to ask."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    try:
        return typer.confirm(f"write {file}?", default=True, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None


def _print(problems: list[Problem], output_format: Format) -> None:
    from verlcli.config.report import github_report, json_report, text_report

    if output_format is Format.json:
        write_json(json_report(problems))
    elif output_format is Format.text:
        write(text_report(problems))
    elif problems:
        write(github_report(problems))
