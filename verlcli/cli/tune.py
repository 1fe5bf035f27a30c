"""`verl tune`, and the console script `verl-tune` with the same options under their underscored names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from verlcli.cli.completion import complete_config
from verlcli.cli.console import APP_SETTINGS, guarded, log, warn, write, write_json
from verlcli.cli.options import Json, Overrides
from verlcli.errors import ConfigError

if TYPE_CHECKING:
    from verlcli.measure.tune import Study, Trial


def tune(
    config: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONFIG", help="YAML files or a preset's name.", autocompletion=complete_config),
    ] = None,
    config_option: Annotated[str | None, typer.Option("--config", help="The same, as an option.")] = None,
    override: Overrides = None,
    target: Annotated[str, typer.Option(help="tokens_per_second or step_time.")] = "tokens_per_second",
    max_trials: Annotated[int, typer.Option("--max-trials", "--max_trials", min=2)] = 20,
    search_space: Annotated[
        str | None,
        typer.Option("--search-space", "--search_space", metavar="JSON", help="{'rollout.batch_size': [32, 64]}"),
    ] = None,
    json_output: Json = False,
) -> None:
    """Measure combinations of values by short real trainings and print the best.

    \b
    Examples:

    verl tune quickstart --max-trials 6

    verl tune quickstart --search-space "{'training.ppo_micro_batch_size_per_gpu': [64, 128, 256]}"
    """
    from verlcli.measure.tune import TARGETS, changes_learning, parse_search_space
    from verlcli.measure.tune import tune as run_study

    sources = [*(config or []), *([config_option] if config_option else [])]
    if not sources:
        raise ConfigError("no config", where="verl tune", fix="name a YAML file or a preset: verl tune quickstart")
    if target not in TARGETS:
        raise ConfigError(f"unknown target {target!r}", where="--target", fix=f"use one of {', '.join(TARGETS)}")
    space = None if search_space is None else parse_search_space(search_space)
    for key in changes_learning(space or {}):
        warn(f"{key} changes what is learned, not only the speed; compare rewards before you keep it")
    study = run_study(
        sources,
        override or [],
        space,
        target=next(t for t in TARGETS if t == target),
        max_trials=max_trials,
        on_trial=_show_trial,
    )
    write_json(tune_document(study)) if json_output else write(tune_report(study))


def _show_trial(trial: Trial, number: int, total: int) -> None:
    values = ", ".join(f"{k}={v}" for k, v in trial.values.items()) or "as it is"
    result = f"{trial.result:,.2f}" if trial.result is not None else f"{trial.status}: {trial.reason}"
    log(f"trial {number}/{total}: {values}: {result} ({trial.seconds:.0f} s)")


def tune_report(study: Study) -> str:
    """The best combination and its gain, or that the config is best as it is."""
    best = study.best
    tried = f"{len(study.trials)} trials of {study.space_size + 1} combinations, target {study.target}"
    if not best.values:
        return f"keep what you have: nothing measured is more than noise better ({tried})"
    gain = "" if study.gain_percent is None else f", {study.gain_percent:+.1f} % over the config as it is"
    lines = [
        f"best: {study.target} {best.result:,.2f}{gain} ({tried})",
        *(f"  {k}: {v}" for k, v in best.values.items()),
    ]
    return "\n".join(lines)


def tune_document(study: Study) -> dict[str, Any]:
    """The document of `schemas/tune.schema.json`."""
    return {
        "schema_version": 1,
        "target": study.target,
        "best": dict(study.best.values),
        "gain_percent": study.gain_percent,
        "trials": [
            {
                "values": dict(t.values),
                "result": t.result,
                "status": t.status,
                "seconds": round(t.seconds, 3),
                "reason": t.reason,
            }
            for t in study.trials
        ],
    }


def main() -> None:
    """The command `verl-tune`; `verlcli.cli.entry` is where it starts."""
    app = typer.Typer(name="verl-tune", add_completion=False, **APP_SETTINGS)
    app.command()(guarded(tune))
    try:
        guarded(app)()
    except typer.Exit as end:
        raise SystemExit(end.exit_code) from end
