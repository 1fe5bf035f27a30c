from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config import loader
from verlcli.config.dump import to_yaml
from verlcli.config.loader import Mark, load_document, load_text
from verlcli.errors import ConfigError

MIB = 1 << 20


def refusal(path: Path) -> ConfigError:
    """The error of loading `path`, which must come fast."""
    start = time.process_time()
    with pytest.raises(ConfigError) as caught:
        load_document(path, name="x.yaml")
    assert time.process_time() - start < 5.0
    assert caught.value.fix
    assert caught.value.where
    assert caught.value.where.startswith("x.yaml")
    return caught.value


def bomb(levels: int, line: str, first: str) -> str:
    return "\n".join(
        [f"a0: &a0 {first}", *(f"a{i}: &a{i} {line.replace('@', f'*a{i - 1}')}" for i in range(1, levels))]
    )


# text, what the message says, where it points
REFUSED = {
    "empty": ("", "empty", None),
    "only a comment": ("# nothing\n", "empty", None),
    "only null": ("null\n", "empty", None),
    "a list": ("\n- a\n", "list, not a mapping", "x.yaml:2:1"),
    "a scalar": ("hello", "single value, not a mapping", "x.yaml:1:1"),
    "two documents": ("a: 1\n---\nb: 2\n", "second document", "x.yaml:2:1"),
    "object tag": ("a: !!python/object/apply:os.system [ls]", "!!python/object/apply:os.system", "x.yaml:1:4"),
    "python name": ("a: !!python/name:os.system", "tag", "x.yaml:1:4"),
    "own tag": ("a: !foo 1", "tag !foo", "x.yaml:1:4"),
    "tag on a mapping": ("a: !!set {x}", "tag !!set", "x.yaml:1:4"),
    "timestamp tag": ("a: !!timestamp 2020-01-01", "tag !!timestamp", "x.yaml:1:4"),
    "tag that lies": ("a: !!int 5.5", "is no int", "x.yaml:1:4"),
    "number as key": ("a:\n  1: b", "read as int", "x.yaml:2:3"),
    "true as key": ("true: b", "read as bool", "x.yaml:1:1"),
    "null as key": ("~: b", "read as null", "x.yaml:1:1"),
    "list as key": ("[a]: b", "sequence is used as a key", "x.yaml:1:1"),
    "mapping as key": ("? {a: 1}\n: b", "mapping is used as a key", "x.yaml:1:3"),
    "list as key by alias": ("a: &a [x]\n*a : b", "sequence is used as a key", "x.yaml:1:4"),
    "recursive list": ("a: &a [*a]", "contains itself", "x.yaml:1:8"),
    "recursive mapping": ("a: &a {b: {c: *a}}", "contains itself", "x.yaml:1:15"),
    "undefined alias": ("a: *b", "undefined alias *b", "x.yaml:1:4"),
    "merge of a scalar": ("a:\n  <<: 1", "takes a mapping", "x.yaml:2:7"),
    "open bracket": ("a: [1\nb: 2\n", "starts on line 1", "x.yaml:2:2"),
    "open quote": ('a: "x\n', "quoted scalar", "x.yaml:2:1"),
    "tab": ("a:\n\tb: 1\n", "cannot start any token", "x.yaml:2:1"),
    "colon in a value": ("a: b: c\n", "mapping values are not allowed", "x.yaml:1:5"),
    "control character": ("a: 1\nb: \x07\n", "control characters", "x.yaml:2"),
    "lone surrogate": ('a: "\\ud800"', "escape", "x.yaml:1:7"),
    "NUL": ("a: \0", "binary", None),
    "other YAML version": ("%YAML 3.0\n---\na: 1", "incompatible", "x.yaml:1:1"),
    "bomb of lists": (bomb(30, "[@, @, @, @, @, @, @, @, @]", "[x]"), "more than 20000 values", None),
    "bomb of mappings": (bomb(60, "{p: @, q: @}", "{x: 1}"), "more than 20000 values", None),
    "deep by aliases": (bomb(5000, "[@]", "[x]"), "nest deeper than 64", None),
    "many merges": (
        "a: &a {" + ",".join(f"k{i}: 1" for i in range(9000)) + "}\nb:\n" + "- {<<: *a}\n" * 50_000,
        "more than 20000 values",
        None,
    ),
    "many keys": ("\n".join(f"k{i}: 1" for i in range(80_000)), "more than 20000 values", None),
    "many duplicates": ("a: 1\n" * 100_000, "more than 20000 values", None),
    "10 MB of [": ("[" * 10_000_000, "larger than 1 MiB", None),
    "10 MB of {a:": ("{a: " * 2_500_000, "larger than 1 MiB", None),
    "1 MiB of [": ("[" * (MIB - 1), "nesting", None),
    "1 MiB of {a:": ("{a: " * (MIB // 4 - 1), "nested deeper than 64", None),
    "1 MiB of dashes": ("- " * (MIB // 2 - 1), "nested deeper than 64", None),
    "1 MiB of ?": ("? " * (MIB // 2 - 1), "used as a key", None),
    "deep by indentation": ("\n".join(" " * i + "a:" for i in range(1000)), "nested deeper than 64", "x.yaml:65:65"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_text_is_refused_fast_with_its_place_and_a_fix(tmp_path: Path, case: str) -> None:
    text, message, where = REFUSED[case]
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    error = refusal(path)
    assert message in error.message
    assert where in (None, error.where)


def test_tab_error_says_spaces(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a:\n\tb: 1\n")
    assert "spaces" in (refusal(path).fix or "")


@pytest.mark.parametrize("data", [b"\xff\xfea\x00", b"a: \xe9", b"\x80"])
def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    assert "UTF-8" in refusal(path).message


def test_missing_file_directory_and_unreadable_name_are_told_apart(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "x.yaml").message
    assert "directory" in refusal(tmp_path).message
    assert "cannot be read" in refusal(tmp_path / ("x" * 5000)).message
    assert "cannot be read" in refusal(Path("a\0b")).message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    assert "cannot be read" in refusal(path).message


def test_byte_order_mark_and_windows_line_ends_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: x\r\n")
    document = load_document(path)
    assert document.values == {"a": 1, "b": {"c": "x"}}
    assert document.marks[("b", "c")] == Mark(3, 3, 3, 6)


def test_marks_point_at_keys_and_values() -> None:
    marks = load_text("a:\n  b: [1, {c: 2}]\n  'd e':\n    - x\n", "t").marks
    assert marks[()] == Mark(1, 1, 1, 1)
    assert marks[("a",)] == Mark(1, 1, 2, 3)
    assert marks[("a", "b")] == Mark(2, 3, 2, 6)
    assert marks[("a", "b", 0)] == Mark(2, 7, 2, 7)
    assert marks[("a", "b", 1, "c")] == Mark(2, 11, 2, 14)
    assert marks[("a", "d e", 0)] == Mark(4, 7, 4, 7)


def test_duplicate_key_names_both_lines_for_all_duplicates() -> None:
    problems = load_text("a: 1\nb:\n  c: 1\n  c: 2\n  c: 3\na: 2\n", "t.yaml").problems
    assert [(p.code, p.path, p.line, p.column) for p in problems] == [
        ("VRL006", "b.c", 4, 3),
        ("VRL006", "b.c", 5, 3),
        ("VRL006", "a", 6, 1),
    ]
    assert "line 3" in problems[0].message
    assert problems[2].file == "t.yaml"


def test_merge_keys_fill_in_and_keep_their_places() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\na:\n  y: 9\n  <<: [*b, *m]\n"
    document = load_text(text, "t")
    assert document.values["a"] == {"y": 9, "x": 1, "z": 4}
    assert document.marks[("a", "x")] == Mark(1, 11, 1, 14)
    assert document.problems == ()


def test_aliases_repeat_values() -> None:
    assert load_text("a: &a [1, 2]\nb: *a\n&k c: *k\n", "t").values == {"a": [1, 2], "b": [1, 2], "c": "c"}


def test_quoted_double_angle_is_an_ordinary_key() -> None:
    assert load_text('"<<": 1', "t").values == {"<<": 1}


def test_result_is_the_same_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: [1, {b: 'x'}]\nc: |\n  text\nd: &x {e: 1e-6}\nf: *x\n"
    fast = load_text(text, "t")
    monkeypatch.setattr(loader, "_Loader", yaml.SafeLoader)
    assert load_text(text, "t") == fast


# Without control characters and line separators, which YAML treats in its own way.
TEXT = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=12)
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(TREES)
def test_json_is_read_as_json(tree: Any) -> None:
    assert load_text(json.dumps(tree, ensure_ascii=False), "t").values == tree


@given(st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), TREES, min_size=1, max_size=5))
def test_marks_lie_inside_the_text_and_on_the_key(tree: dict[str, Any]) -> None:
    text = to_yaml(tree)
    lines = text.split("\n")
    for path, mark in load_text(text, "t").marks.items():
        assert 1 <= mark.line <= len(lines)
        if len(path) == 1:
            assert lines[mark.key_line - 1][mark.key_column - 1 :].lstrip("'\"").startswith(str(path[0]))


def loads_or_is_refused(text: str) -> bool:
    try:
        load_text(text, "t")
    except ConfigError as error:
        return bool(error.fix and error.where)
    return True


@given(st.text())
def test_any_text_loads_or_is_refused_politely(text: str) -> None:
    assert loads_or_is_refused(text)


@given(st.text(alphabet="ab:- {}[]&*!<>?|'\"\n\t#,%@`~0.1", max_size=60))
def test_text_near_yaml_loads_or_is_refused_politely(text: str) -> None:
    assert loads_or_is_refused(text)
