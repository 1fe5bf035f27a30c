"""`verl diagnose`: graded findings about this machine, and about what a config needs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from verlcli.cli.completion import complete_config
from verlcli.cli.console import show, write_json
from verlcli.cli.options import Json, Overrides
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from rich.text import Text

    from verlcli.config import Loaded
    from verlcli.diagnose import Finding, Status

STYLES: dict[Status, str] = {"PASS": "green", "WARN": "yellow", "FAIL": "bold red", "SKIP": "dim"}


def diagnose(
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONFIG]",
            help="YAML file or preset whose model, data, packages and plan to check too.",
            autocompletion=complete_config,
        ),
    ] = None,
    overrides: Overrides = None,
    json_output: Json = False,
) -> None:
    """Look at this machine: Python, torch, driver, GPUs, memory, disk, optional packages; exit 1 on any FAIL."""
    from verlcli.diagnose import report, run_probes

    findings = run_probes(_load(config, overrides or []))
    document = report(findings)
    if json_output:
        write_json(document)
    else:
        show(_render(findings))
    if not document["ok"]:
        raise typer.Exit(1)


def _load(source: str | None, overrides: list[str]) -> Loaded | None:
    if source is None:
        if overrides:
            raise ConfigError(
                "there is no CONFIG whose keys -o could change", where="-o", fix="verl diagnose CONFIG -o ..."
            )
        return None
    from verlcli.config import load_config

    loaded = load_config([source], overrides)
    loaded.require()
    return loaded


def _render(findings: tuple[Finding, ...]) -> Text:
    from rich.text import Text

    width = max(len(finding.id) for finding in findings)
    text = Text()
    for finding in findings:
        text.append(finding.status, STYLES[finding.status])
        text.append(f"  {finding.id:<{width}}  {finding.evidence}\n")
        if finding.status in ("WARN", "FAIL"):
            text.append("".join(f"      {line}\n" for line in _advice(finding)))
    counts = Counter(finding.status for finding in findings)
    text.append(", ".join(f"{counts[status]} {status}" for status in STYLES if counts[status]))
    return text


def _advice(finding: Finding) -> list[str]:
    advice = {"why": finding.why, "fix": finding.fix}
    return [f"{name}: {words}" for name, words in advice.items() if words]
