"""First step of the data's road: a file of rows as random access to raw rows, each with its place for messages.

A table holds the file mapped or in Arrow's own memory; a row becomes Python objects only when it is asked for.
"""

from __future__ import annotations

import json
import mmap
import stat
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from verlcli.errors import ConfigError


class Table(Protocol):
    """Raw rows of one file. Reading a row that is broken raises ConfigError naming file and row."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The file's columns, or None when only each row knows its own."""
        ...

    def __len__(self) -> int: ...

    def place(self, index: int) -> str:
        """`file.jsonl:12` (line) or `file.parquet, row 3` (0-based)."""
        ...

    def raw(self, index: int) -> Any: ...

    def __iter__(self) -> Iterator[Any]:
        """All raw rows in order, faster than one `raw` a row; a broken one raises as in `raw`."""
        ...


class JsonlTable:
    """One JSON object a line, read through a memory map; only the lines' offsets are held. Empty lines are skipped."""

    columns: tuple[str, ...] | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            # An empty file cannot be mapped.
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        self._starts = array("Q")
        self._lines = array("Q")
        self._index()

    def _index(self) -> None:
        start, line, size = 0, 0, len(self._bytes)
        while start < size:
            end = self._bytes.find(b"\n", start)
            end = size if end < 0 else end
            line += 1
            if self._bytes[start:end].strip():
                self._starts.append(start)
                self._lines.append(line)
            start = end + 1

    def __len__(self) -> int:
        return len(self._starts)

    def place(self, index: int) -> str:
        return f"{self._path}:{self._lines[index]}"

    def raw(self, index: int) -> Any:
        start = self._starts[index]
        end = self._bytes.find(b"\n", start)
        return parse_json(self._bytes[start : end if end >= 0 else None], self.place(index))

    def __iter__(self) -> Iterator[Any]:
        return (self.raw(index) for index in range(len(self)))


class JsonTable:
    """One JSON list of objects, held in memory: use JSONL or Arrow for large data."""

    columns: tuple[str, ...] | None = None

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = parse_json(path.read_bytes(), str(path))
        if not isinstance(self._rows, list):
            raise ConfigError(
                f"holds a JSON {type(self._rows).__name__}, wanted a list of rows",
                where=str(path),
                fix="write [{...}, {...}], or one row a line and name the file .jsonl",
            )

    def __len__(self) -> int:
        return len(self._rows)

    def place(self, index: int) -> str:
        return f"{self._path}, row {index}"

    def raw(self, index: int) -> Any:
        return self._rows[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


class ArrowTable:
    """A pyarrow table: IPC files stay memory-mapped, of parquet only the asked columns are read."""

    def __init__(self, path: Path, table: Any, columns: Sequence[str]) -> None:
        self._path = path
        self._table = table
        self.columns: tuple[str, ...] | None = tuple(columns)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def place(self, index: int) -> str:
        return f"{self._path}, row {index}"

    def raw(self, index: int) -> Any:
        return self._table.slice(index, 1).to_pylist()[0]

    def __iter__(self) -> Iterator[Any]:
        for batch in self._table.to_batches(max_chunksize=1024):
            yield from batch.to_pylist()


def parse_json(text: bytes, place: str) -> Any:
    """Value of UTF-8 JSON (a byte order mark is ignored); ConfigError at `place` when it is broken."""
    try:
        return json.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 ({error.reason} at byte {error.start})"
        raise ConfigError(message, where=place, fix="save it as UTF-8") from error
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise ConfigError(f"is not JSON: {error.msg} at {at}", where=place, fix="correct or remove this row") from error
    except RecursionError as error:
        raise ConfigError("is nested too deeply", where=place, fix="correct or remove this row") from error
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"cannot be read: {error}", where=place, fix="correct or remove this row") from error


def _open_parquet(path: Path, wanted: Sequence[str] | None) -> Table:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, memory_map=True)
    names = file.schema_arrow.names
    table = file.read(columns=[name for name in names if wanted is None or name in wanted])
    return ArrowTable(path, table, names)


def _open_ipc(path: Path, wanted: Sequence[str] | None) -> Table:
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        table = pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        # The datasets library writes its .arrow files as streams.
        source.seek(0)
        table = pa.ipc.open_stream(source).read_all()
    names = table.column_names
    return ArrowTable(path, table.select([name for name in names if wanted is None or name in wanted]), names)


_OPENERS: dict[str, Callable[[Path, Sequence[str] | None], Table]] = {
    ".jsonl": lambda path, _: JsonlTable(path),
    ".json": lambda path, _: JsonTable(path),
    ".parquet": _open_parquet,
    ".arrow": _open_ipc,
    ".feather": _open_ipc,
}
SUFFIXES = tuple(_OPENERS)
CHECK_PATH = "check the path: one in a config is relative to the config's file, one in a command to where you are"


def check_suffix(path: Path) -> str:
    """The lower-case suffix of a data file; ConfigError listing the known ones for any other."""
    suffix = path.suffix.lower()
    if suffix not in _OPENERS:
        shown = path.suffix or "(no suffix)"
        raise ConfigError(f"unknown data format {shown}", where=str(path), fix=f"use one of {', '.join(SUFFIXES)}")
    return suffix


def open_table(file: str | Path, columns: Sequence[str] | None = None) -> Table:
    """Open a data file by its suffix; of columnar formats only `columns` are read (None: all).

    Raises:
        ConfigError: missing, unreadable, unknown suffix, or not in the format its suffix says.
    """
    path = Path(file)
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise ConfigError("is a directory, wanted a data file", where=str(path), fix="name the files in it")
        return _OPENERS[check_suffix(path)](path, columns)
    except FileNotFoundError as error:
        raise ConfigError("no such file", where=str(path), fix=CHECK_PATH) from error
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror or error}", where=str(path), fix="check the file and its permissions"
        ) from error
    except ValueError as error:  # pyarrow.ArrowInvalid is a ValueError
        raise ConfigError(
            f"is not a {path.suffix.lower()[1:]} file: {str(error).splitlines()[0]}",
            where=str(path),
            fix="write it again, or give it the suffix of its real format",
        ) from error
