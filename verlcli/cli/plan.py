"""`verl plan`: what a config would do on this machine, before anything is loaded; or where a value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from verlcli.cli.completion import complete_config, complete_override
from verlcli.cli.console import show, warn, write, write_json

if TYPE_CHECKING:
    from verlcli.config import Loaded
    from verlcli.plan import Plan


def plan(
    config: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG", help="YAML files (later ones win) or a preset's name.", autocompletion=complete_config
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--override",
            metavar="KEY=VALUE",
            help="Override a key; ~KEY removes it.",
            autocompletion=complete_override,
        ),
    ] = None,
    explain: Annotated[
        str | None, typer.Option(metavar="KEY", help="Show every layer that the value of KEY came through.")
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Work out batches, placement, engines and dtypes on this machine; exit 3 if they do not fit. Loads no model."""
    from verlcli.config import load_config

    loaded = load_config(config, overrides or [])
    if explain is not None:
        _explain(loaded, explain, json_output=json_output)
        return
    loaded.require()
    for problem in loaded.warnings:
        warn(f"{problem.origin or ''} {problem.path}: {problem.message}".strip())
    argv = [*config, *(part for override in overrides or [] for part in ("-o", override))]
    _show(_plan(loaded, argv), json_output=json_output)


def _plan(loaded: Loaded, argv: list[str]) -> Plan:
    from verlcli.plan import make_plan, this_machine

    return make_plan(loaded.config, name=loaded.name, machine=this_machine(), argv=argv, origins=loaded.origins)


def _show(planned: Plan, *, json_output: bool) -> None:
    from verlcli.plan.report import plan_document, plan_report

    if json_output:
        write_json(plan_document(planned))
    else:
        show(plan_report(planned))


def _explain(loaded: Loaded, key: str, *, json_output: bool) -> None:
    from verlcli.plan.explain import explain_document, explain_key, explain_report

    found = explain_key(loaded.origins, key)
    if json_output:
        write_json(explain_document(key, found))
    else:
        write(explain_report(found))
