"""Typer wiring: which command lives where. Command modules stay light; heavy imports wait inside the commands."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from verlcli.cli import data, diagnose, explain, import_, plan, presets, schema, train, tune, validate
from verlcli.cli.console import APP_SETTINGS, guarded, write

RUN, CHECK, MEASURE, CONFIG = "Run", "Check", "Measure", "Configuration"


class CommandsByGroup(TyperGroup):
    """Plain help with the commands under their group's name; rich's help takes as long to import as all the rest."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section a group, in the order of registration."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panel = getattr(command, "rich_help_panel", None)
            groups.setdefault(str(panel or "Commands"), []).append((name, command.get_short_help_str(80)))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    name="verl",
    cls=CommandsByGroup,
    help="Check, plan and run RL post-training of language models from one YAML file.",
    epilog="Exit codes: 0 yes, 1 the answer is no, 2 usage or invalid input, 3 does not fit, 4 something is not "
    "installed, 130 interrupted (checkpoint written).",
    no_args_is_help=True,
    **APP_SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        from verlcli import __version__

        write(f"verl {__version__}")
        raise typer.Exit


@app.callback()
def root(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Check, plan and run RL post-training of language models from one YAML file."""
    if debug:
        os.environ["VERL_DEBUG"] = "1"


app.command("train", rich_help_panel=RUN)(guarded(train.train))
app.command("validate", rich_help_panel=CHECK)(guarded(validate.validate))
app.command("explain", rich_help_panel=CHECK)(guarded(explain.explain))
app.command("plan", rich_help_panel=CHECK)(guarded(plan.plan))
app.command("diagnose", rich_help_panel=CHECK)(guarded(diagnose.diagnose))
app.command("tune", rich_help_panel=MEASURE)(guarded(tune.tune))
app.command("import", rich_help_panel=CONFIG)(guarded(import_.import_launch))
app.add_typer(presets.presets_app, name="presets", rich_help_panel=CONFIG)
app.command("schema", rich_help_panel=CONFIG)(guarded(schema.schema))
app.add_typer(data.data_app, name="data", rich_help_panel=CONFIG)


def main() -> None:
    """The command `verl`; `verlcli.cli.entry` is where it starts."""
    try:
        guarded(app)()
    except typer.Exit as end:
        raise SystemExit(end.exit_code) from end
