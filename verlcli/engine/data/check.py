"""Beside the data's road: what is in data files, and everything wrong with them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from verlcli.engine.data.encode import encode_prompt
from verlcli.engine.data.rows import to_row
from verlcli.engine.data.tables import Table, open_table
from verlcli.engine.types import PromptRow
from verlcli.errors import ConfigError

SHOWN = 20  # bad rows and duplicates that are listed; all are counted
UNLIMITED = 2**62  # tokens
_NO_SOURCE = "-"
_REST = {"reward_model": {"ground_truth": "-"}, "extra_info": None}  # of rows that only need a prompt


@dataclass(frozen=True, slots=True)
class FileFacts:
    file: str
    rows: int
    columns: list[str]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Percentiles of the prompts' lengths."""

    unit: Literal["characters", "tokens"]
    min: int
    p50: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True)
class BadRow:
    where: str
    message: str
    fix: str | None


@dataclass(frozen=True, slots=True)
class Duplicate:
    where: str
    same_as: str


@dataclass(slots=True)
class DataReport:
    """Facts about data files; `bad` and `duplicates` list the first 20, the counts are complete."""

    files: list[FileFacts] = field(default_factory=list)
    data_sources: Counter[str] = field(default_factory=Counter)
    prompt_length: Lengths | None = None  # None: no good row
    too_long: int = 0  # prompts above the limit that was asked about
    bad_count: int = 0
    bad: list[BadRow] = field(default_factory=list)
    duplicate_count: int = 0
    duplicates: list[Duplicate] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all files, bad ones among them."""
        return sum(facts.rows for facts in self.files)

    @property
    def ok(self) -> bool:
        """True when there are rows and none is bad."""
        return self.rows > 0 and self.bad_count == 0

    def to_json(self) -> dict[str, Any]:
        """Plain dict with the keys of `schemas/data.schema.json`."""
        return {
            "schema_version": 1,
            "ok": self.ok,
            "rows": self.rows,
            "files": [asdict(facts) for facts in self.files],
            "data_sources": dict(self.data_sources.most_common()),
            "prompt_length": asdict(self.prompt_length) if self.prompt_length else None,
            "bad_rows": {"count": self.bad_count, "first": [asdict(bad) for bad in self.bad]},
            "duplicates": {"count": self.duplicate_count, "first": [asdict(copy) for copy in self.duplicates]},
        }


def check_files(
    files: Sequence[str],
    *,
    prompt_key: str = "prompt",
    tokenizer: Any = None,
    limit: int | None = None,
    prompt_only: bool = False,
) -> DataReport:
    """Read every row of the files. Lengths are characters, or tokens when a tokenizer is given.

    `limit` is a length to count longer prompts of. With `prompt_only` rows need nothing but their prompt.

    Raises:
        ConfigError: a file as a whole cannot be read; bad rows do not raise.
    """
    report = DataReport()
    first_places: dict[int, str] = {}
    lengths: list[int] = []
    for file in files:
        table = open_table(file)
        columns = dict.fromkeys(table.columns or ())
        for place, row in _good_rows(table, prompt_key, columns, report, _REST if prompt_only else {}):
            if row.data_source != _NO_SOURCE:
                report.data_sources[row.data_source] += 1
            lengths.append(_length(row, tokenizer))
            _note_duplicate(row, place, first_places, report)
        report.files.append(FileFacts(file, len(table), list(columns)))
    report.too_long = sum(length > limit for length in lengths) if limit is not None else 0
    report.prompt_length = _percentiles(sorted(lengths), "tokens" if tokenizer else "characters")
    return report


def _good_rows(
    table: Table, prompt_key: str, columns: dict[str, None], report: DataReport, rest: Mapping[str, Any]
) -> Iterator[tuple[str, PromptRow]]:
    """Rows that are in order, with their places; notes the others in the report and all rows' columns in `columns`."""
    for index in range(len(table)):
        place = table.place(index)
        try:
            raw = table.raw(index)
            if isinstance(raw, Mapping):
                columns.update(dict.fromkeys(raw))
                if rest and prompt_key in raw:
                    raw = {**raw, **rest, "data_source": raw.get("data_source") or _NO_SOURCE}
            row = to_row(raw, place, prompt_key)
        except ConfigError as error:
            report.bad_count += 1
            if len(report.bad) < SHOWN:
                report.bad.append(BadRow(place, error.message, error.fix))
        else:
            yield place, row


def _text(row: PromptRow) -> str:
    return row.prompt if isinstance(row.prompt, str) else "\n".join(message["content"] for message in row.prompt)


def _length(row: PromptRow, tokenizer: Any) -> int:
    if tokenizer is None:
        return len(_text(row))
    return len(encode_prompt(tokenizer, row.prompt, UNLIMITED, "error").ids)


def _note_duplicate(row: PromptRow, place: str, first_places: dict[int, str], report: DataReport) -> None:
    first = first_places.setdefault(hash(_text(row)), place)
    if first == place:
        return
    report.duplicate_count += 1
    if len(report.duplicates) < SHOWN:
        report.duplicates.append(Duplicate(place, first))


def _percentiles(ordered: Sequence[int], unit: Literal["characters", "tokens"]) -> Lengths | None:
    if not ordered:
        return None
    p50, p90, p99 = (ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in (50, 90, 99))
    return Lengths(unit, ordered[0], p50, p90, p99, ordered[-1])
