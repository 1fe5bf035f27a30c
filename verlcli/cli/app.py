"""Typer wiring: which command lives where. Command modules stay light; heavy imports wait inside the commands."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from verlcli.cli import data, diagnose, plan, presets, schema, train, tune, validate
from verlcli.cli.console import guarded, write

RUN, CHECK, MEASURE, CONFIG = "Run", "Check", "Measure", "Configuration"

app = typer.Typer(
    name="verl",
    help="Check, plan and run RL post-training of language models from one YAML file.",
    epilog="Exit codes: 0 yes, 1 the answer is no, 2 usage or invalid input, 3 does not fit, 4 something is not "
    "installed, 130 interrupted (checkpoint written).",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
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
app.command("plan", rich_help_panel=CHECK)(guarded(plan.plan))
app.command("diagnose", rich_help_panel=CHECK)(guarded(diagnose.diagnose))
app.command("tune", rich_help_panel=MEASURE)(guarded(tune.tune))
app.add_typer(presets.presets_app, name="presets", rich_help_panel=CONFIG)
app.command("schema", rich_help_panel=CONFIG)(guarded(schema.schema))
app.add_typer(data.data_app, name="data", rich_help_panel=CONFIG)


def main() -> None:
    """Entry point of the console script `verl`."""
    app()
