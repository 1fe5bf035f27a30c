"""Files or a generator: the later layer's choice stands, whatever a base said about the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from verlcli.config import load_config

GENERATOR = "data: {source: arithmetic, source_args: {max_operand: 9}}\n"
FILES = "data: {train_files: a.jsonl, val_files: b.jsonl}\n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).write_text("")


def load_child(write: Any, base: str, child: str, *overrides: str) -> Any:
    write("model: {path: a/b}\n" + base, "base.yaml")
    return load_config([write("extends: ./base.yaml\n" + child, "child.yaml")], overrides, env={})


def names(files: list[str]) -> list[str]:
    return [Path(file).name for file in files]


@pytest.mark.parametrize(
    "child",
    [
        "data: {source: null, train_files: a.jsonl}\n",
        "data: {train_files: a.jsonl}\n",
        "data: {train_files: [a.jsonl], source_args: null}\n",
    ],
)
def test_files_of_a_child_replace_the_generator_and_its_arguments(write: Any, child: str) -> None:
    loaded = load_child(write, GENERATOR, child)
    assert loaded.problems == ()
    data = loaded.values["data"]
    assert (data["source"], data["source_args"], names(data["train_files"])) == (None, {}, ["a.jsonl"])
    # What the run writes down loads again.
    assert load_config([loaded.values], env={}).config == loaded.config


def test_own_data_on_the_quickstart(write: Any) -> None:
    loaded = load_config([write("extends: quickstart\ndata: {source: null, train_files: a.jsonl}\n")], env={})
    assert loaded.problems == ()
    assert load_config(["quickstart"], ["data.train_files=a.jsonl"], env={}).problems == ()


def test_a_generator_of_a_child_replaces_all_files(write: Any) -> None:
    loaded = load_child(write, FILES, "data: {source: arithmetic}\n")
    assert loaded.problems == ()
    assert (loaded.config.data.train_files, loaded.config.data.val_files) == ((), ())


def test_the_history_says_what_replaced_the_generator(write: Any) -> None:
    last = load_child(write, GENERATOR, "data:\n  train_files: a.jsonl\n").origins["data.source"][-1]
    assert last.value is None
    assert last.label.endswith("child.yaml:3:16 (train_files)")


def test_an_override_that_takes_the_generator_away_needs_no_more(write: Any) -> None:
    loaded = load_child(write, GENERATOR, "", "~data.source", "data.train_files=a.jsonl")
    assert (loaded.problems, loaded.values["data"]["source_args"]) == ((), {})


@pytest.mark.parametrize(
    ("child", "overrides", "codes"),
    [
        ("data: {source: arithmetic, train_files: a.jsonl}\n", [], ["VRL121"]),
        ("", ["data.source=arithmetic", "data.train_files=a.jsonl"], ["VRL121"]),
        ("data: {train_files: a.jsonl, source: null, source_args: {max_operand: 8}}\n", [], ["VRL122"]),
        ("data: {train_files: a.jsonl}\n", ["data.source_args.max_operand=8"], ["VRL122"]),
        ("data: {val_files: b.jsonl}\n", [], ["VRL121"]),
    ],
)
def test_a_contradiction_in_one_place_stays_one(write: Any, child: str, overrides: list[str], codes: list[str]) -> None:
    assert [problem.code for problem in load_child(write, GENERATOR, child, *overrides).problems] == codes


@pytest.mark.parametrize(("value", "result"), [("null", {}), ("{}", {"max_operand": 9}), ("{size: 1}", None)])
def test_null_empties_a_free_map_and_maps_merge(write: Any, value: str, result: Any) -> None:
    loaded = load_child(write, GENERATOR, f"data: {{source_args: {value}}}\n")
    assert loaded.values["data"]["source_args"] == (result if result is not None else {"max_operand": 9, "size": 1})


def test_null_empties_verls_keys(write: Any) -> None:
    assert load_child(write, "verl: {a: {b: 1}}\n", "verl: null\n").values["verl"] == {}
