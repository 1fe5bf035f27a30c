"""`verl data`: look at data files and bring them into verl's rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from verlcli.cli.console import APP_SETTINGS, guarded, write, write_json

if TYPE_CHECKING:
    from verlcli.engine.data.check import DataReport

data_app = typer.Typer(
    help="Check data files, and convert them to verl's rows (JSONL, parquet, arrow).",
    no_args_is_help=True,
    **APP_SETTINGS,
)

PromptKey = Annotated[str, typer.Option(help="Column of the prompt.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help=".jsonl, .json, .parquet, .arrow or .feather.")],
    prompt_key: PromptKey = "prompt",
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Count prompt lengths in the tokens of this model (as model.path)."),
    ] = None,
    json_output: AsJson = False,
) -> None:
    """Read every row: counts, columns, sources, prompt lengths, duplicates, and all that is wrong.

    Exit codes: 0 all rows are good, 1 some are not or there are none, 2 a file cannot be read.
    """
    from verlcli.engine.data.check import check_files

    report = check_files(files, prompt_key=prompt_key, tokenizer=_load_tokenizer(tokenizer) if tokenizer else None)
    if json_output:
        write_json(report.to_json())
    else:
        write(_text_report(report))
    raise typer.Exit(0 if report.ok else 1)


def convert(
    source: Annotated[Path, typer.Argument(metavar="SRC", help="File to read.")],
    target: Annotated[Path, typer.Argument(metavar="DST", help="File to write; its suffix decides the format.")],
    form: Annotated[
        Literal["auto", "gsm8k", "rows"],
        typer.Option("--format", help="What SRC holds: GSM8K's raw rows, verl's rows, or look at its first row."),
    ] = "auto",
    prompt_key: PromptKey = "prompt",
    split: Annotated[
        str | None, typer.Option(help="Split named in GSM8K rows; SRC's file name without suffix by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite DST.")] = False,
    json_output: AsJson = False,
) -> None:
    """Write SRC's rows to DST as verl's rows. Arrow files (.arrow, .feather) are memory-mapped when they are read."""
    from verlcli.engine.data.convert import convert as convert_file

    rows = convert_file(source, target, form=form, prompt_key=prompt_key, split=split, force=force)
    if json_output:
        write_json({"schema_version": 1, "ok": True, "rows": rows, "output": str(target)})
    else:
        write(f"{rows} rows written to {target}")


def _load_tokenizer(path: str) -> Any:
    from verlcli.engine.models import ModelSource, load_tokenizer, locate

    # A folder needs no weights here.
    source = ModelSource(path) if Path(path).is_dir() else locate(path, key="--tokenizer")
    return load_tokenizer(source, key="--tokenizer")


def _text_report(report: DataReport) -> str:
    lines = [f"{facts.file}: {facts.rows} rows; columns {', '.join(facts.columns) or '-'}" for facts in report.files]
    sources = ", ".join(f"{name} {count}" for name, count in report.data_sources.most_common())
    lines.append(f"data sources   {sources or '-'}")
    if (length := report.prompt_length) is not None:
        lines.append(
            f"prompt length  {length.min} to {length.max} {length.unit}; "
            f"half up to {length.p50}, 90 % up to {length.p90}, 99 % up to {length.p99}"
        )
    lines.append(f"duplicates     {report.duplicate_count}")
    lines += [f"  {copy.where}: same prompt as {copy.same_as}" for copy in report.duplicates]
    lines.append(f"bad rows       {report.bad_count}")
    for bad in report.bad:
        lines += [f"  {bad.where}: {bad.message}", f"    fix: {bad.fix}"]
    if report.bad_count > len(report.bad):
        lines.append(f"  ... and {report.bad_count - len(report.bad)} more")
    good = report.rows - report.bad_count
    lines.append(f"{good} of {report.rows} rows are good" if report.rows else "no rows: give files that hold some")
    return "\n".join(lines)


data_app.command("check")(guarded(check))
data_app.command("convert")(guarded(convert))
