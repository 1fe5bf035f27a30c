"""The only place that prints: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import typer

from verlcli.errors import ConfigError, VerlCliError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

P = ParamSpec("P")
R = TypeVar("R")


def stdout() -> Console:
    """Console for results."""
    from rich.console import Console

    return Console(soft_wrap=True, highlight=False)


def stderr() -> Console:
    """Console for progress, logs, warnings and errors."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def show(renderable: RenderableType) -> None:
    """Print one result (a rich renderable) to stdout."""
    stdout().print(renderable)


def write(text: str) -> None:
    """Print one result as it is, without markup or wrapping, to stdout."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document to stdout."""
    write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def log(text: str, *, style: str | None = None) -> None:
    """Print one line of progress, a warning or an error to stderr."""
    stderr().print(text, style=style, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning to stderr."""
    log(f"warning: {text}", style="yellow")


def debug_wanted() -> bool:
    """True under `--debug` or VERL_DEBUG=1: show tracebacks."""
    return os.environ.get("VERL_DEBUG", "") not in ("", "0")


def fail(error: VerlCliError) -> NoReturn:
    """Print a user's error on one screen and leave with its exit code."""
    if isinstance(error, ConfigError) and error.problems:
        from verlcli.config.report import text_report

        log(text_report(error.problems))
    log(f"error: {error}", style="red")
    if debug_wanted():
        traceback.print_exception(error, file=sys.stderr)
    raise typer.Exit(error.exit_code)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors of `command` into one message and the documented exit code; never a traceback without --debug."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except VerlCliError as error:
            fail(error)
        except BrokenPipeError:
            # The reader of our output has gone (`verl ... | head`): not an error of ours.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            log("interrupted")
            raise typer.Exit(130) from None
        except typer.Exit:
            raise
        except Exception as error:
            if debug_wanted():
                raise
            log(f"error: unexpected {type(error).__name__}: {error}", style="red")
            log("  fix: this is a bug of verlcli; run again with --debug for the traceback and report it")
            raise typer.Exit(1) from error

    return run
