"""`verl explain CODE|KEY`: what a code of a problem means, or what a key takes and does."""

from __future__ import annotations

from typing import Annotated

import typer

from verlcli.cli.completion import complete_topic
from verlcli.cli.console import write, write_json
from verlcli.cli.options import Json


def explain(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="CODE|KEY",
            help="Code such as VRL201, a key such as rollout.n, or a key of verl's.",
            autocompletion=complete_topic,
        ),
    ],
    json_output: Json = False,
) -> None:
    """Explain a problem's code (what, why, an example, the source) or a key (what it takes and does)."""
    from verlcli.config.explain import explain as look_up
    from verlcli.config.explain import explanation

    document = look_up(topic)
    if json_output:
        write_json(document)
    else:
        write(explanation(document))
