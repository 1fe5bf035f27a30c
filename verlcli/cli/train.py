"""`verl train`: from YAML to a trained checkpoint."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from verlcli.cli.console import warn, write_json
from verlcli.cli.options import Backend, Configs, Json, Overrides
from verlcli.cli.plan import show_plan


def train(
    config: Configs,
    override: Overrides = None,
    backend: Backend = None,
    resume: Annotated[str | None, typer.Option(metavar="auto|never|STEP", help="Go on from a checkpoint.")] = None,
    output_dir: Annotated[str | None, typer.Option(metavar="DIR", help="Run directory (default runs/NAME).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    json_output: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only warnings, errors and the result.")] = False,
) -> None:
    """Train as the YAML says, after checking and planning it.

    \b
    Examples:

    verl train quickstart

    verl train mine.yaml -o actor.optim.lr=1e-6 --dry-run
    """
    flags = {
        "backend": backend,
        "trainer.resume": int(resume) if resume and resume.isdigit() else resume,
        "trainer.output_dir": output_dir,
    }
    with sigterm_interrupts():
        _train(config, override or [], flags, dry_run=dry_run, json_output=json_output, quiet=quiet)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM end what runs inside like Ctrl-C; the trainer replaces this by its own, gentler handling."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _train(
    config: list[str],
    override: list[str],
    flags: Mapping[str, Any],
    *,
    dry_run: bool,
    json_output: bool,
    quiet: bool,
) -> None:
    from verlcli.backends import get_backend
    from verlcli.config import load_config
    from verlcli.plan import make_plan, this_machine

    loaded = load_config(config, override, flags=flags)
    loaded.require()
    for problem in loaded.warnings:
        warn(f"{problem.origin or ''} {problem.path}: {problem.message}".strip())
    machine = this_machine()
    argv = _start_arguments(config, override, flags)
    plan = make_plan(loaded.config, name=loaded.name, machine=machine, argv=argv, origins=loaded.origins)
    if dry_run:
        show_plan(plan, machine, json_output=json_output)
        return
    for note in plan.notes:
        if note.severity == "warning":
            warn(f"{note.path}: {note.message}")
    chosen = get_backend(loaded.config.backend)
    chosen.check(plan, machine)

    from verlcli.cli.live import LiveView

    result = chosen.run(loaded, argv=argv, observer=LiveView(quiet=quiet))
    if json_output:
        write_json(result)
    else:
        from verlcli.cli.outcome import show_outcome

        show_outcome(result)


def _start_arguments(config: list[str], override: list[str], flags: Mapping[str, Any]) -> list[str]:
    """What follows `verl train` to start this very run, display options left out."""
    options = [part for each in override for part in ("-o", each)]
    for key, value in flags.items():
        if value is not None:
            options += [f"--{key.rsplit('.', 1)[-1].replace('_', '-')}", str(value)]
    return [*config, *options]
