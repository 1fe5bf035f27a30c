"""Files of rows: every format gives the same rows, and a bad row is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.engine.data import load_rows
from verlcli.engine.data.rows import to_row
from verlcli.engine.data.tables import SUFFIXES
from verlcli.errors import ConfigError

KEYS = st.sampled_from(["prompt", "data_source", "reward_model", "extra_info", "ground_truth", "role", "content"])


def row(number: int, **changes: Any) -> dict[str, Any]:
    """A good row; a column changed to ... is left out."""
    full = {
        "prompt": [{"role": "user", "content": f"What is {number} + 1?"}],
        "data_source": "sums",
        "reward_model": {"style": "rule", "ground_truth": str(number + 1)},
        "extra_info": {"index": number},
        **changes,
    }
    return {key: value for key, value in full.items() if value is not ...}


def write(path: Path, rows: list[Any]) -> str:
    """Write rows as the path's suffix says; .arrow as a stream, as the datasets library does."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(item) + "\n" for item in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".feather":
        feather.write_feather(pa.Table.from_pylist(rows), str(path))
    else:
        table = pa.Table.from_pylist(rows)
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    return str(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_rows(tmp_path: Path, suffix: str) -> None:
    dataset = load_rows([write(tmp_path / f"rows{suffix}", [row(number) for number in range(5)])])
    assert len(dataset) == 5
    assert dataset[3].prompt == ({"role": "user", "content": "What is 3 + 1?"},)
    assert (dataset[3].data_source, dataset[3].ground_truth, dataset[3].extra_info) == ("sums", "4", {"index": 3})


def test_files_of_different_formats_follow_one_another(tmp_path: Path) -> None:
    files = [
        write(tmp_path / f"{start}{suffix}", [row(start), row(start + 1)])
        for start, suffix in ((0, ".jsonl"), (2, ".parquet"))
    ]
    dataset = load_rows(files)
    assert [dataset[index].ground_truth for index in range(4)] == ["1", "2", "3", "4"]
    assert [item.ground_truth for item in dataset] == ["1", "2", "3", "4"]  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        dataset[4]


def test_max_samples_takes_the_first_rows_over_all_files_and_reads_no_further(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.jsonl", [row(0), row(1)]), write(tmp_path / "b.jsonl", [row(2), {"broken": 1}])]
    assert [item.ground_truth for item in load_rows(files, max_samples=3)] == ["1", "2", "3"]  # type: ignore[attr-defined]


def test_a_plain_string_prompt_and_a_renamed_prompt_column_are_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", [row(0, prompt=..., text="1+1=", extra_info=...)])
    assert load_rows([file], prompt_key="text")[0].prompt == "1+1="


@pytest.mark.parametrize(
    ("given", "read"), [(18, "18"), (10**400, str(10**400)), (18.0, "18"), (0.5, "0.5"), (-3, "-3"), (" x ", " x ")]
)
def test_a_number_as_ground_truth_becomes_text(tmp_path: Path, given: object, read: str) -> None:
    file = write(tmp_path / "a.jsonl", [row(0, reward_model={"ground_truth": given})])
    assert load_rows([file])[0].ground_truth == read


def test_empty_lines_and_a_byte_order_mark_are_skipped_and_lines_still_count(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(row(0)).encode() + b"\r\n\n  \n{broken\n")
    with pytest.raises(ConfigError) as caught:
        load_rows([str(file)])
    assert caught.value.where == f"{file}:4"
    file.write_bytes(file.read_bytes().replace(b"{broken\n", json.dumps(row(1)).encode()))
    assert [item.ground_truth for item in load_rows([str(file)])] == ["1", "2"]  # type: ignore[attr-defined]


BAD_ROWS: list[tuple[Any, str]] = [
    (row(1, prompt=...), "has no column 'prompt'; it has data_source, reward_model, extra_info"),
    (row(1, data_source=...), "has no column 'data_source'"),
    (row(1, reward_model=...), "has no column 'reward_model'"),
    (row(1, prompt=""), "prompt is empty text"),
    (row(1, prompt="  "), "prompt is the text '  '"),
    (row(1, prompt=[]), "prompt is an empty list"),
    (row(1, prompt=7), "prompt is the number 7"),
    (row(1, prompt=["hello"]), r"prompt\[0\] is the text 'hello', wanted a message"),
    (row(1, prompt=[{"role": "user"}]), r"prompt\[0\].content is missing"),
    (row(1, prompt=[{"role": "user", "content": None}]), r"prompt\[0\].content is null"),
    (row(1, prompt=[{"role": "user", "content": " "}]), r"prompt\[0\] has an empty role or content"),
    (row(1, prompt="a\ud800"), r"prompt has half a character \('\\ud800'\)"),
    (row(1, data_source=None), "data_source is null"),
    (row(1, reward_model={"style": "rule"}), "reward_model has no ground_truth"),
    (row(1, reward_model={"ground_truth": None}), "reward_model has no ground_truth"),
    (row(1, reward_model={"ground_truth": ""}), "reward_model.ground_truth is empty text"),
    (row(1, reward_model={"ground_truth": ["a"]}), "reward_model.ground_truth is the list"),
    (row(1, reward_model={"ground_truth": True}), "reward_model.ground_truth is the boolean True"),
    (row(1, reward_model={"ground_truth": float("nan")}), "reward_model.ground_truth is the number nan"),
    (row(1, reward_model="42"), "reward_model is the text '42'"),
    (row(1, extra_info=[1]), "extra_info is the list"),
    ([1, 2], "is the list"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_ROWS)
def test_a_bad_row_is_named_by_its_line_with_a_fix(tmp_path: Path, bad: object, message: str) -> None:
    file = write(tmp_path / "a.jsonl", [row(0), bad, row(2)])
    with pytest.raises(ConfigError, match=message) as caught:
        load_rows([file])
    assert caught.value.where == f"{file}:2"
    assert caught.value.fix
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("suffix", [".json", ".parquet", ".arrow", ".feather"])
def test_a_bad_row_of_other_formats_is_named_by_its_index(tmp_path: Path, suffix: str) -> None:
    file = write(
        tmp_path / f"a{suffix}", [row(0), row(1), row(2, reward_model={"style": "rule", "ground_truth": None})]
    )
    with pytest.raises(ConfigError, match="no ground_truth") as caught:
        load_rows([file])
    assert caught.value.where == f"{file}, row 2"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"x", "unknown data format .txt"),
        ("a", b"x", r"unknown data format \(no suffix\)"),
        ("a.jsonl", b"", "the dataset is empty"),
        ("a.jsonl", b"\n \n", "the dataset is empty"),
        ("a.json", b"[]", "the dataset is empty"),
        ("a.json", b"", "is not JSON"),
        ("a.json", b'{"prompt": "x"}', "holds a JSON dict, wanted a list of rows"),
        ("a.json", b"[1,\n2,,]", "is not JSON: .* at line 2, column 3"),
        ("a.jsonl", b"{'prompt': 1}\n", "is not JSON: .* at column 2"),
        ("a.jsonl", b'{"prompt": "\xff"}\n', "is not UTF-8"),
        ("a.jsonl", b"[" * 100_000 + b"\n", "is nested too deeply"),
        ("a.jsonl", b"1" * 10_000 + b"\n", "cannot be read: Exceeds the limit"),
        ("a.parquet", b"not parquet at all", "is not a parquet file"),
        ("a.parquet", b"", "is not a parquet file"),
        ("a.arrow", b"not arrow at all", "is not a arrow file"),
        ("a.feather", b"", "is not a feather file|cannot be read"),
    ],
)
def test_a_file_that_is_not_data_is_refused_with_a_fix(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_rows([str(file)])
    assert str(file) in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("name", ["x.parquet", "x", "x.txt"])
def test_a_missing_file_and_a_directory_are_named_as_such_whatever_their_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="no such file\n  fix: check the path"):
        load_rows([str(tmp_path / name)])
    (tmp_path / name).mkdir()
    with pytest.raises(ConfigError, match="is a directory"):
        load_rows([str(tmp_path / name)])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, JSON, max_size=6) | JSON)
def test_any_value_is_a_good_row_or_a_clear_error(value: object) -> None:
    try:
        good = to_row(value, "file.jsonl:1")
    except ConfigError as error:
        refused = error
    else:
        assert good.prompt
        assert good.ground_truth
        return
    assert refused.where == "file.jsonl:1"
    assert refused.fix


@given(content=st.binary(max_size=200), suffix=st.sampled_from(SUFFIXES))
def test_any_bytes_are_refused_with_the_files_name(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    file = tmp_path_factory.getbasetemp() / f"any{suffix}"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_rows([str(file)])
    assert str(file) in str(caught.value)


def test_an_empty_arrow_file_says_the_dataset_is_empty(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([row(0)]).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="the dataset is empty"):
        load_rows([str(tmp_path / "a.parquet")])


def test_ipc_rows_stay_in_the_mapped_file(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([row(number) for number in range(20_000)])
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as writer:
        writer.write_table(table)
    size = (tmp_path / "a.arrow").stat().st_size
    del table
    before = pa.total_allocated_bytes()
    dataset = load_rows([str(tmp_path / "a.arrow")])
    assert len(dataset) == 20_000
    assert pa.total_allocated_bytes() - before < size / 10
