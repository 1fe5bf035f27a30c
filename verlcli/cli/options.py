"""Arguments and options that several commands share, so that they read and complete the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from verlcli.cli.completion import complete_cluster, complete_config, complete_override

Configs = Annotated[
    list[str],
    typer.Argument(
        metavar="CONFIG", help="YAML files (later ones win) or a preset's name.", autocompletion=complete_config
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--override",
        metavar="KEY=VALUE",
        help="Override a key; ~KEY removes it.",
        autocompletion=complete_override,
    ),
]
Backend = Annotated[str | None, typer.Option(help="local or verl; same as -o backend=…")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        help="Where it will run, such as 8xA100-80G,nodes=4,cpus=64,ram=512G.",
        autocompletion=complete_cluster,
    ),
]
