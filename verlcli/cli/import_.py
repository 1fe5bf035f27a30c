"""`verl import run.sh`: a launch of the real verl becomes a config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from verlcli.cli.completion import complete_version
from verlcli.cli.console import log, warn, write, write_json
from verlcli.cli.options import Json

if TYPE_CHECKING:
    from verlcli.config.verl.importer import Imported
    from verlcli.config.verl.read_launch import Launch


def import_launch(
    source: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="Launch script or Hydra YAML of verl; - reads stdin.")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Default, and -: stdout.")
    ] = None,
    launch: Annotated[
        int | None, typer.Option(metavar="N", help="Which launch of the script, from the top; default: the last.")
    ] = None,
    verl_version: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="Version of verl it is written for.", autocompletion=complete_version),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    json_output: Json = False,
) -> None:
    """Make a config of a launch script of verl: the same run, with places to check and change.

    Keys that exist here go to their sections, the rest stays under `verl:`; nothing is executed.
    """
    from verlcli.config.context import Context
    from verlcli.config.verl.import_yaml import config_text
    from verlcli.config.verl.importer import import_run
    from verlcli.config.verl.read_launch import read_launch
    from verlcli.facts.verl.versions import nearest_version

    version = nearest_version(verl_version) if verl_version else None
    output = None if output == Path("-") else output
    found = read_launch(source, launch, Context(verl_version=version))
    imported = import_run(found.run)
    folder = output.absolute().parent if output else Path.cwd()
    text = config_text(imported, _header(found), folder)
    if output is not None:
        _save(output, text, force=force)
    _report(found, imported, output)
    if json_output:
        write_json(_document(found, imported, output, text))
    elif output is None:
        write(text)


def _header(found: Launch) -> list[str]:
    place = found.run.place
    which = f"launch {found.number} of {found.total}, " if found.total > 1 else ""
    line = f"{which}line {place.line}" if found.kind == "script" else "a Hydra config"
    return [f"Imported from {place.file} ({line}), as verl {found.run.version} reads it."]


def _save(output: Path, text: str, *, force: bool) -> None:
    from verlcli.errors import ConfigError

    try:
        with output.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        fix = "choose another name, or write over it with --force"
        raise ConfigError("the file exists", where=str(output), fix=fix) from None
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise ConfigError(message, where=str(output), fix="choose another path") from None


def _report(found: Launch, imported: Imported, output: Path | None) -> None:
    from verlcli.config.verl.read_launch import described

    if found.total > 1:
        log(f"{found.total} launches; took number {found.number}, line {described(found.run)} (choose with --launch N)")
    if found.run.takes_arguments:
        log("the script hands its own arguments on; add them with -o or in the file")
    if found.run.unseen:
        warn(f"{found.run.unseen} could not be read here, so what it says is missing; add it by hand")
    for key, setting in imported.environment.items():
        warn(f"{setting.value_place} {key}: {setting.raw} is read from the environment when verl starts")
    for left in imported.left_out:
        place = left.setting.value_place
        warn(f"{place} {left.setting.key}: left out, {left.reason} is known at run time only; fill it in")
    if output is not None:
        from verlcli.facts.verl import DEFAULT_VERSION

        asked = found.run.version
        version = "" if asked == DEFAULT_VERSION else f" --verl-version {asked}"
        told = f"{len(imported.ours)} keys here, {len(imported.kept)} under verl:"
        log(f"wrote {output} ({told}); check it with: verl validate {output}{version}")


def _document(found: Launch, imported: Imported, output: Path | None, text: str) -> dict[str, Any]:
    left_out = [
        {
            "key": left.setting.key,
            "raw": left.setting.raw,
            "reason": left.reason,
            "line": left.setting.value_place.line,
        }
        for left in imported.left_out
    ]
    about = {"source": found.run.place.file or "", "output": str(output) if output else None}
    which = {"launch": found.number, "launches": found.total, "yaml": text}
    keys = {"mapped": dict(imported.ours), "kept": dict(imported.kept), "environment": list(imported.environment)}
    return {"schema_version": 1, **about, **which, **keys, "left_out": left_out}
