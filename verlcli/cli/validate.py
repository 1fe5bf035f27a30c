"""`verl validate FILE...`: every problem of every config at once."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from verlcli.cli.completion import complete_config
from verlcli.cli.console import write, write_json
from verlcli.cli.options import Json, Overrides

if TYPE_CHECKING:
    from verlcli.config import Problem


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
            help="YAML files or presets' names, each checked on its own.",
            autocompletion=complete_config,
        ),
    ],
    override: Overrides = None,
    output_format: Annotated[Format, typer.Option("--format", help="How problems are printed.")] = Format.text,
    json_output: Json = False,
) -> None:
    """Check configs: every problem at once, each with its place and what to write instead.

    Exit code 1 means problems, 2 that a file cannot be read.
    """
    from verlcli.config.report import has_errors

    problems = list(dict.fromkeys(found for file in files for found in _problems(file, override or [])))
    _print(problems, Format.json if json_output else output_format)
    if any(problem.code == "VRL000" for problem in problems):
        raise typer.Exit(2)
    if has_errors(problems):
        raise typer.Exit(1)


def _problems(file: str, overrides: list[str]) -> list[Problem]:
    from verlcli.config import load_config
    from verlcli.config.report import unreadable
    from verlcli.errors import ConfigError

    try:
        return list(load_config([file], overrides).problems)
    except ConfigError as error:
        return [unreadable(error, file)]


def _print(problems: list[Problem], output_format: Format) -> None:
    from verlcli.config.report import github_report, json_report, text_report

    if output_format is Format.json:
        write_json(json_report(problems))
    elif output_format is Format.text:
        write(text_report(problems))
    elif problems:
        write(github_report(problems))
