"""`verl presets list|show|copy`: configs that ship with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from verlcli.cli.console import guarded, log, write, write_json

presets_app = typer.Typer(help="Configs that ship with verlcli.", no_args_is_help=True)


def list_presets(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the presets, each with what it is for."""
    from verlcli.config.presets import describe, is_base, preset_names, preset_path

    found = [(name, describe(preset_path(name))) for name in preset_names()]
    if json:
        presets = [{"name": name, "description": text, "base": is_base(name)} for name, text in found]
        write_json({"schema_version": 1, "presets": presets})
        return
    width = max((len(name) for name, _ in found), default=0)
    write("\n".join(f"{name:<{width}}  {text}" for name, text in found))


def show(
    name: Annotated[str, typer.Argument(help="Preset's name.")],
    json: Annotated[bool, typer.Option("--json", help="Print its keys as JSON.")] = False,
) -> None:
    """Print a preset as it is written."""
    from verlcli.config import load_document
    from verlcli.config.presets import describe, preset_path

    if json:
        path = preset_path(name)
        values = load_document(path).values
        write_json({"schema_version": 1, "name": name, "description": describe(path), "values": values})
        return
    write(preset_path(name).read_text(encoding="utf-8"))


def copy(
    name: Annotated[str, typer.Argument(help="Preset's name.")],
    destination: Annotated[
        Path | None, typer.Argument(metavar="[DEST]", help="File or folder; default: ./NAME.yaml.")
    ] = None,
) -> None:
    """Copy a preset to a file of yours; never overwrites."""
    from verlcli.config.presets import copy_preset

    written = copy_preset(name, destination or Path())
    log(f"wrote {written}; check it with: verl validate {written}")


presets_app.command("list")(guarded(list_presets))
presets_app.command("show")(guarded(show))
presets_app.command("copy")(guarded(copy))
