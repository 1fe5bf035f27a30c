"""Beside the data's road: foreign files into verl's rows, and verl's rows from one file format into another."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from verlcli.engine.data.rows import ROW_COLUMNS, to_row
from verlcli.engine.data.tables import Table, check_suffix, open_table
from verlcli.errors import ConfigError

Format = Literal["auto", "gsm8k", "rows"]
Row = Mapping[str, Any]

GSM8K_SOURCE = "openai/gsm8k"
GSM8K_INSTRUCTION = "Think step by step, then end your answer with `#### <number>`."
_BATCH = 4096  # rows turned into Arrow at once


def convert(
    source: Path,
    target: Path,
    *,
    form: Format = "auto",
    prompt_key: str = "prompt",
    split: str | None = None,
    force: bool = False,
) -> int:
    """Write the rows of `source` to `target` in verl's row format and return how many; suffixes decide file formats.

    Args:
        form: `gsm8k`: raw `question` and `answer` columns; `rows`: verl's rows already; `auto`: what the first row is.
        prompt_key: the prompt's column in `source`; it is written as `prompt`.
        split: kept in each GSM8K row's `extra_info`; None: the source's file name without suffix.
        force: overwrite `target`, which is written aside and renamed.

    Raises:
        ConfigError: the source has a bad row (named) or none, the target exists, or it cannot hold these rows.
    """
    suffix = check_suffix(target)
    if target.exists() and not force:
        raise ConfigError("exists already", where=str(target), fix="name another file, or overwrite it with --force")
    table = open_table(source)
    if not len(table):
        raise ConfigError("has no rows", where=str(source), fix="name a file with at least one row")
    if form == "gsm8k" or (form == "auto" and _looks_like_gsm8k(table.raw(0))):
        rows = gsm8k_rows(table, split or source.stem)
    else:
        rows = verl_rows(table, prompt_key)
    _write_aside(rows, target, _WRITERS[suffix])
    return len(table)


def _looks_like_gsm8k(raw: Any) -> bool:
    return isinstance(raw, Mapping) and "reward_model" not in raw and {"question", "answer"} <= raw.keys()


def gsm8k_rows(table: Table, split: str) -> Iterator[Row]:
    """GSM8K's raw rows in verl's format: one user message that asks to end with `#### <number>`."""
    for index, raw in enumerate(table):
        place = table.place(index)
        question, answer = _texts(raw, place)
        truth = answer.rpartition("####")[2].strip().replace(",", "")
        if "####" not in answer or not truth:
            raise ConfigError(
                "answer does not end in `#### NUMBER`", where=place, fix="end it with `#### ` and the number"
            )
        yield {
            "prompt": [{"role": "user", "content": f"{question} {GSM8K_INSTRUCTION}"}],
            "data_source": GSM8K_SOURCE,
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": {"split": split, "index": index, "question": question, "answer": answer},
        }


def _texts(raw: Any, place: str) -> tuple[str, str]:
    question, answer = (raw.get(key) if isinstance(raw, Mapping) else None for key in ("question", "answer"))
    if not isinstance(question, str) or not isinstance(answer, str) or not question.strip():
        fix = 'write {"question": "...", "answer": "... #### 42"}, or use --format rows for rows in verl\'s format'
        raise ConfigError("has no text in question or answer", where=place, fix=fix)
    return question, answer


def verl_rows(table: Table, prompt_key: str) -> Iterator[Row]:
    """Rows in verl's format, checked; ground truths become text, the prompt's column `prompt`, other columns stay."""
    for index, raw in enumerate(table):
        row = to_row(raw, table.place(index), prompt_key)
        yield {
            "prompt": row.prompt if isinstance(row.prompt, str) else [dict(message) for message in row.prompt],
            "data_source": row.data_source,
            "reward_model": {**raw["reward_model"], "ground_truth": row.ground_truth},
            "extra_info": dict(row.extra_info),
            **{key: value for key, value in raw.items() if key not in (prompt_key, "prompt", *ROW_COLUMNS)},
        }


def _write_aside(rows: Iterable[Row], target: Path, write: Callable[[Iterable[Row], Path], None]) -> None:
    aside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(rows, aside)
        os.replace(aside, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"cannot be written: {reason}", where=str(target), fix="free space or name another place"
        ) from error
    finally:
        aside.unlink(missing_ok=True)


def _write_jsonl(rows: Iterable[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for row in rows:
            file.write(_json(row) + "\n")


def _write_json(rows: Iterable[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        for number, row in enumerate(rows):
            file.write(("[\n" if number == 0 else ",\n") + _json(row))
        file.write("\n]\n")


def _json(row: Row) -> str:
    # Arrow knows dates and decimals, JSON does not. Half a character, which UTF-8 has not, becomes JSON's escape by the
    # files' `backslashreplace`.
    return json.dumps(row, ensure_ascii=False, default=str)


def _write_parquet(rows: Iterable[Row], path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_arrow_table(rows), path)


def _write_ipc(rows: Iterable[Row], path: Path) -> None:
    import pyarrow as pa

    table = _arrow_table(rows)
    with pa.ipc.new_file(str(path), table.schema) as writer:  # not compressed, so that it can be memory-mapped
        writer.write_table(table)


def _arrow_table(rows: Iterable[Row]) -> Any:
    """The rows as a pyarrow table; rows may have different columns and fields, but not different types in one."""
    import pyarrow as pa

    left, parts = iter(rows), []
    try:
        while batch := list(islice(left, _BATCH)):
            columns = dict.fromkeys(key for row in batch for key in row)
            # An empty object has no Arrow type that parquet can write; a null reads as one.
            parts.append(
                pa.table(
                    {
                        key: [row.get(key) or None if key == "extra_info" else row.get(key) for row in batch]
                        for key in columns
                    }
                )
            )
        return pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, UnicodeError, OverflowError) as error:
        raise ConfigError(
            f"the rows do not fit one table: {str(error).splitlines()[0]}",
            fix="give each field of extra_info one type in all rows, or write .jsonl",
        ) from error


_WRITERS: dict[str, Callable[[Iterable[Row], Path], None]] = {
    ".jsonl": _write_jsonl,
    ".json": _write_json,
    ".parquet": _write_parquet,
    ".arrow": _write_ipc,
    ".feather": _write_ipc,
}
