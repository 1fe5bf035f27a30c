"""`verl plan`: what a config would do on this machine, before anything is loaded; or where a value came from."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from verlcli.cli.completion import complete_version
from verlcli.cli.console import show, warn, write, write_json
from verlcli.cli.options import Backend, ClusterOption, Configs, Json, Overrides

if TYPE_CHECKING:
    from verlcli.config import Loaded
    from verlcli.plan import Machine, Note, Plan


class Target(str, Enum):
    """For whom a config is written out."""

    verl = "verl"


def plan(
    config: Configs,
    overrides: Overrides = None,
    backend: Backend = None,
    cluster: ClusterOption = None,
    explain: Annotated[
        str | None, typer.Option(metavar="KEY", help="Show every layer that the value of KEY came through.")
    ] = None,
    emit: Annotated[Target | None, typer.Option(help="Print the command that starts verl with this config.")] = None,
    verl_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Version of verl that will run (with --emit).", autocompletion=complete_version
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Work out batches, placement, engines, dtypes and memory before anything is loaded.

    With --emit verl: the same config as verl's own command line. Exit code 3 means that batches or devices do not work
    out. A plan for a larger machine than this one is exit code 0, with a warning that says why it cannot start here.
    """
    from verlcli.config import load_config
    from verlcli.facts import parse_cluster
    from verlcli.plan import machine_of, make_plan, this_machine

    if emit is not None:
        _emit(config, overrides or [], backend, verl_version, json_output=json_output)
        return
    loaded = load_config(config, overrides or [], flags={"backend": backend})
    if explain is not None:
        _explain(loaded, explain, json_output=json_output)
        return
    loaded.require()
    for problem in loaded.warnings:
        warn(f"{problem.origin or ''} {problem.path}: {problem.message}".strip())
    argv = [*config, *(part for override in overrides or [] for part in ("-o", override))]
    argv += ["--backend", backend] if backend is not None else []
    machine = this_machine() if cluster is None else machine_of(parse_cluster(cluster))
    planned = make_plan(loaded.config, name=loaded.name, machine=machine, argv=argv, origins=loaded.origins)
    show_plan(planned, machine, where=f"on {cluster}" if cluster else "here", json_output=json_output)


def show_plan(planned: Plan, machine: Machine, *, where: str = "here", json_output: bool) -> None:
    """Print a plan, with a last warning when `verl train` would refuse it on `machine`, which is `where`."""
    from verlcli.plan.report import plan_document, plan_report

    refusal = _refusal(planned, machine, where)
    if json_output:
        notes = (*planned.notes, *([refusal] if refusal else []))
        write_json(plan_document(replace(planned, notes=notes)))
    else:
        show(plan_report(planned, refusal=refusal))


def _refusal(planned: Plan, machine: Machine, where: str) -> Note | None:
    """What `verl train` says to the plan before it loads anything; None: it starts."""
    from verlcli.backends import get_backend
    from verlcli.errors import VerlCliError
    from verlcli.plan import Note

    try:
        get_backend(planned.backend).check(planned, machine)
    except VerlCliError as error:
        fix = f"; to train {where} {error.fix}" if error.fix else ""
        text = f"cannot start {where}, `verl train` will refuse: {error.message}{fix}"
        return Note("warning", error.where or "", text)
    return None


def _emit(
    config: list[str], overrides: list[str], backend: str | None, verl_version: str | None, *, json_output: bool
) -> None:
    from verlcli.config import load_config
    from verlcli.config.context import Context
    from verlcli.config.verl.emit import hydra_overrides, launch_command
    from verlcli.config.verl.translate import translate
    from verlcli.facts.verl.versions import nearest_version

    version = nearest_version(verl_version) if verl_version else None
    flags = {"backend": backend or "verl"}  # what verl gets is checked as what verl gets
    loaded = load_config(config, overrides, flags=flags, context=Context(verl_version=version))
    loaded.require()
    found = translate(loaded, version)
    for problem in loaded.warnings:
        warn(f"{problem.origin or ''} {problem.path}: {problem.message}".strip())
    for key in found.left_out:
        warn(f"{key}: verl has no key that says the same, so it is left out; write what verl should do under `verl:`")
    arguments = hydra_overrides(found)
    if not json_output:
        write(launch_command(arguments))
        return
    about = {"name": loaded.name, "verl_version": found.tree.version, "engine": found.tree.engine}
    result = {"overrides": arguments, "command": launch_command(arguments), "left_out": list(found.left_out)}
    write_json({"schema_version": 1, **about, **result})


def _explain(loaded: Loaded, key: str, *, json_output: bool) -> None:
    from verlcli.plan.explain import explain_document, explain_key, explain_report

    found = explain_key(loaded.origins, key)
    if json_output:
        write_json(explain_document(key, found))
    else:
        write(explain_report(found))
