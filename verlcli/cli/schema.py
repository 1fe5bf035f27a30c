"""`verl schema [NAME|KEY]`: a JSON Schema, or what one config key takes."""

from __future__ import annotations

from typing import Annotated

import typer

from verlcli.cli.console import write_json


def schema(
    name: Annotated[
        str, typer.Argument(metavar="[NAME|KEY]", help="Schema such as config or plan, or a key such as rollout.n.")
    ] = "config",
) -> None:
    """Print a JSON Schema, or the part of the config's schema for one dotted key."""
    from verlcli.config.keys import schema_at
    from verlcli.config.wording import better_key
    from verlcli.errors import ConfigError
    from verlcli.resources import load_schema, schema_names

    if name in schema_names():
        write_json(load_schema(name))
        return
    path = tuple(name.split("."))
    part = schema_at(path)
    if not part:
        advice = better_key(path) or "see `verl schema` for all keys"
        raise ConfigError(f"'{name}' is no schema and no key", fix=f"{advice}; schemas: {', '.join(schema_names())}")
    write_json(part)
