"""Any file that may be checked -> its problems: a config of ours, a launch script of verl, or verl's own YAML."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from verlcli.config.context import Context
from verlcli.config.loader import MAX_BYTES, read_bytes
from verlcli.config.problems import Problem, in_order
from verlcli.config.verl.kind import Kind, kind_of
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.config.verl.run import VerlRun

STDIN = "<stdin>"
_LONGEST = 60  # characters of a condition


def check_file(path: str, overrides: Sequence[str] = (), context: Context | None = None) -> list[Problem]:
    """Problems of one file, sorted by place, each once.

    Args:
        path: a preset's name, a file, or `-` for the standard input, which is called `<stdin>` in problems.
        overrides: `KEY=VALUE` on top: of a config of ours, or as Hydra overrides of every launch.
        context: facts beside the text.

    Raises:
        ConfigError: it cannot be read at all.
    """
    from verlcli.config.load import load_config
    from verlcli.config.presets import is_preset_name, preset_names

    context = context or Context()
    if path == "-":
        return _standard_input(overrides, context)
    if not is_preset_name(path) or (path not in preset_names() and os.path.lexists(path)):
        text = read_text(path)
        kind = kind_of(path, text)
        if kind != "ours":
            return in_order(_launches(path, text, kind, overrides, context))
    return list(load_config([path], overrides, context=context).problems)


def read_text(path: str) -> str:
    """Text of a file as it is, line ends and byte order mark included; bytes that are not UTF-8 are replaced.

    Raises:
        ConfigError: it is missing, a folder, unreadable, larger than 1 MiB, or binary.
    """
    return _decoded(read_bytes(path, path), path)


def _decoded(data: bytes, name: str) -> str:
    if len(data) > MAX_BYTES:
        raise ConfigError("larger than 1 MiB, which no input needs", where=name, fix="is this really the file?")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError("UTF-16 text", where=name, fix="save it as UTF-8")
    if b"\0" in data:
        raise ConfigError("a binary file, not text", where=name, fix="is this really the file?")
    return data.decode("utf-8", errors="replace")


def _standard_input(overrides: Sequence[str], context: Context) -> list[Problem]:
    from verlcli.config.load import load_config

    text = _decoded(sys.stdin.buffer.read(MAX_BYTES + 1), STDIN)
    kind = kind_of(STDIN, text)
    if kind != "ours":
        return in_order(_launches(STDIN, text, kind, overrides, context))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stdin.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            problems = load_config([file], overrides, context=context).problems
        except ConfigError as error:
            where = (error.where or STDIN).replace(str(file), STDIN)
            raise ConfigError(error.message, where=where, fix=error.fix) from None
        return [_renamed(problem, str(file)) for problem in problems]


def _renamed(problem: Problem, file: str) -> Problem:
    origin = problem.origin.replace(file, STDIN) if problem.origin else None
    return replace(problem, file=STDIN if problem.file == file else problem.file, origin=origin, fix=None)


def _weighed(checked: list[tuple[VerlRun, list[Problem]]]) -> list[Problem]:
    """What only a switch of the user's brings about is a doubt where the launch also runs without it."""
    usual = {run.place: problems for run, problems in checked if not run.condition}
    found: list[Problem] = []
    for run, problems in checked:
        if run.condition and run.place in usual:
            said = {_spot(problem) for problem in usual[run.place]}
            problems = [_doubted(problem, run) for problem in problems if _spot(problem) not in said]
        found += problems
    return found


def _spot(problem: Problem) -> tuple[str, str, int, int]:
    return problem.code, problem.path, problem.line, problem.column


def _doubted(problem: Problem, run: VerlRun) -> Problem:
    if problem.severity != "error":
        return problem
    when = run.condition if len(run.condition) <= _LONGEST else f"{run.condition[:_LONGEST]}..."
    return replace(problem, severity="warning", message=f"{problem.message} (only {when})", fix=None)


def _launches(path: str, text: str, kind: Kind, overrides: Sequence[str], context: Context) -> Iterator[Problem]:
    from verlcli.config.verl.check import check_run
    from verlcli.config.verl.read_hydra import read_hydra_run
    from verlcli.config.verl.read_script import read_script_runs
    from verlcli.config.verl.words import command_line_settings

    if kind == "script":
        runs, problems = read_script_runs(path, text, context)
    else:
        run, problems = read_hydra_run(path, text, context)
        runs = [run]
    added, wrong = command_line_settings(overrides)
    runs = [replace(run, settings=(*run.settings, *added)) for run in runs]
    found = _weighed([(run, list(check_run(run))) for run in runs])
    # What the key's own check says about an empty value is more than the shell's.
    empty = {problem.line for problem in found if problem.code == "VRL258"}
    yield from (problem for problem in problems if problem.code != "VRL302" or problem.line not in empty)
    yield from (*wrong, *found)
