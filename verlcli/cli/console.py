"""The only place that prints: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, NoReturn, ParamSpec, TextIO, TypeVar, cast

import typer

from verlcli.errors import ConfigError, InterruptedRunError, VerlCliError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

P = ParamSpec("P")
R = TypeVar("R")

# Of every Typer app that a user starts: plain text, `-h`, our own messages.
APP_SETTINGS: dict[str, Any] = {
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


class Stream:
    """A standard stream that falls silent for good when it cannot be written; `lost` is told why."""

    def __init__(self, stream: TextIO | None, lost: Callable[[OSError], None]) -> None:
        # This one, whatever stands in its place later: a live view redirects both while it shows. None: closed.
        self._stream = stream or open(os.devnull, "w")  # noqa: SIM115  (as long as the process)
        self._lost = lost
        self.encoding = self._stream.encoding

    def write(self, text: str) -> int:
        """Write and flush."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            _silence(self._stream)
            self._lost(error)
        return len(text)

    def flush(self) -> None:
        """Nothing waits: `write` flushes."""

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Its descriptor."""
        return self._stream.fileno()


def _silence(stream: TextIO) -> None:
    """Send the rest of a broken stream nowhere, also what it still holds when the interpreter ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _results() -> Stream:
    def lost(error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):  # a reader that has gone (`verl ... | head`) has what it wanted
            raise VerlCliError(
                f"cannot write the result: {error.strerror or error}",
                where="stdout",
                fix="free space, or send the output elsewhere",
            ) from error

    return Stream(sys.stdout, lost)


def stdout() -> Console:
    """Console for results."""
    from rich.console import Console

    return Console(file=cast("IO[str]", _results()), soft_wrap=True, highlight=False, emoji=False)


def stderr() -> Console:
    """Console for progress, logs, warnings and errors; nobody reading them ends no run."""
    from rich.console import Console

    return Console(file=cast("IO[str]", Stream(sys.stderr, lambda _: None)), highlight=False, emoji=False)


def show(renderable: RenderableType) -> None:
    """Print one result (a rich renderable) to stdout; raises as `write`."""
    stdout().print(renderable)


def write(text: str) -> None:
    """Print one result as it is, without markup or wrapping, to stdout.

    Raises:
        VerlCliError: stdout cannot take it (a full disk).
    """
    _results().write(text if text.endswith("\n") else text + "\n")


def write_json(document: dict[str, Any]) -> None:
    """Print one JSON document to stdout."""
    write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def log(text: str, *, style: str | None = None) -> None:
    """Print one line of progress, a warning or an error to stderr."""
    stderr().print(text, style=style, markup=False, soft_wrap=True)


def warn(text: str) -> None:
    """Print a warning to stderr."""
    log(f"warning: {text}", style="yellow")


def figure(value: float, form: str) -> str:
    """A number in the format `form`, short also when it is huge."""
    return format(value, form) if abs(value) < 1e7 else f"{value:.2e}"


def debug_wanted() -> bool:
    """True under `--debug` or VERL_DEBUG=1: show tracebacks."""
    return os.environ.get("VERL_DEBUG", "") not in ("", "0")


def fail(error: VerlCliError, *, as_json: bool = False) -> NoReturn:
    """Print a user's error on one screen, and with `--json` as a document; leave with its exit code."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    if problems:
        from verlcli.config.report import text_report

        log(text_report(problems))
    log(f"error: {error.summary}", style="red")
    if debug_wanted():
        log("".join(traceback.format_exception(error)))
    _leave(error, as_json=as_json)


def _leave(error: VerlCliError, *, as_json: bool) -> NoReturn:
    if as_json:
        with suppress(VerlCliError):  # stdout itself may be what failed
            write_json(error_document(error))
    raise typer.Exit(error.exit_code)


def error_document(error: VerlCliError) -> dict[str, Any]:
    """The document of `schemas/error.schema.json`."""
    problems = error.problems if isinstance(error, ConfigError) else ()
    about = {"exit_code": error.exit_code, "message": error.message, "where": error.where, "fix": error.fix}
    return {"schema_version": 1, "ok": False, "error": about, "problems": [p.to_json() for p in problems]}


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors of `command` into one message and the documented exit code; never a traceback without --debug.

    Where the command has an option `json_output` and it is set, stdout gets the error as a document.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        as_json = bool(kwargs.get("json_output"))
        try:
            return command(*args, **kwargs)
        except VerlCliError as error:
            fail(error, as_json=as_json)
        except KeyboardInterrupt:
            log("interrupted")
            _leave(InterruptedRunError("interrupted"), as_json=as_json)
        except typer.Exit:
            raise
        except OSError as error:  # the machine's, not ours: a full disk, no permission
            with suppress(VerlCliError):
                _results().write("")  # a broken stdout would complain once more at the very end
            fail(VerlCliError(str(error), fix="mend what it names and run again"), as_json=as_json)
        except Exception as error:
            if debug_wanted():
                raise
            unexpected = VerlCliError(
                f"unexpected {type(error).__name__}: {error}",
                fix="this is a bug of verlcli; run again with --debug for the traceback and report it",
            )
            fail(unexpected, as_json=as_json)

    return run
