"""Third step of the data's road: the configured files as one `Dataset` of checked prompt rows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from verlcli.engine.data.rows import ROW_COLUMNS, to_row
from verlcli.engine.data.tables import Table, open_table
from verlcli.engine.types import Dataset, PromptRow
from verlcli.errors import ConfigError


class FileDataset:
    """The rows of several tables one after another; a row is converted when it is asked for."""

    def __init__(self, tables: Sequence[Table], prompt_key: str, max_samples: int | None = None) -> None:
        self._tables = tuple(tables)
        self._prompt_key = prompt_key
        self._ends = tuple(accumulate(len(table) for table in tables))
        total = self._ends[-1] if self._ends else 0
        self._size = total if max_samples is None else min(total, max_samples)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> PromptRow:
        table, local = self._locate(index)
        return to_row(table.raw(local), table.place(local), self._prompt_key)

    def __iter__(self) -> Iterator[PromptRow]:
        """All rows in order, faster than one `[index]` a row."""
        left = self._size
        for table in self._tables:
            for local, raw in zip(range(min(left, len(table))), table):  # noqa: B905  the shorter one ends it
                yield to_row(raw, table.place(local), self._prompt_key)
            left -= min(left, len(table))

    def _locate(self, index: int) -> tuple[Table, int]:
        if not 0 <= index < self._size:
            raise IndexError(f"row {index} of a dataset of {self._size}")
        number = bisect_right(self._ends, index)
        return self._tables[number], index - (self._ends[number - 1] if number else 0)


def load_rows(files: Sequence[str], *, prompt_key: str = "prompt", max_samples: int | None = None) -> Dataset:
    """Open the files (.jsonl, .json, .parquet, .arrow, .feather) as one dataset and check every row of it once.

    Args:
        max_samples: only the first so many rows over all files; None: all.

    Raises:
        ConfigError: a file or row is bad (named by file and row), or there is no row at all.
    """
    dataset = FileDataset([open_table(file, (prompt_key, *ROW_COLUMNS)) for file in files], prompt_key, max_samples)
    if not len(dataset):
        raise ConfigError(
            "the dataset is empty: no rows", where=", ".join(files) or None, fix="name files that hold at least one row"
        )
    for _ in dataset:
        pass
    return dataset
