from __future__ import annotations

from typing import Any

from verlcli.config.context import Asked, Context, DataFacts
from verlcli.config.problems import Problem
from verlcli.errors import ConfigError

CONFIG = """\
model: {path: some/model}
data:
  train_files: rows.parquet
  train_batch_size: 64
  max_prompt_length: 100
  truncation: error
"""


def facts(**more: Any) -> DataFacts:
    return DataFacts(**{"rows": 500, "rows_read": 500, "columns": ("prompt",), "sources": ("sums",), **more})


def found(load: Any, given: DataFacts | ConfigError, text: str = CONFIG) -> list[Problem]:
    asked: list[tuple[Any, ...]] = []

    def read(question: Asked) -> DataFacts:
        asked.append((*question.files, question.prompt_key, question.model, question.limit))
        if isinstance(given, ConfigError):
            raise given
        return given

    loaded = load(text, context=Context(read_data=read))
    (call,) = asked
    assert call[0].endswith("rows.parquet")
    assert call[1:] == ("prompt", "some/model", 100)
    return [problem for problem in loaded.problems if problem.code in ("VRL141", "VRL142", "VRL143", "VRL144")]


def said(problems: list[Problem]) -> list[tuple[str, str, int]]:
    return [(problem.code, problem.severity, problem.line) for problem in problems]


def test_what_the_data_hold_is_a_note_at_their_key(load: Any) -> None:
    (note,) = found(load, facts(longest_prompt=90, p50_prompt=40, p99_prompt=80, too_long=0))
    assert (note.code, note.severity, note.line, note.path) == ("VRL144", "note", 3, "data.train_files")
    assert note.message == ("500 rows of sums; half of the prompts have up to 40 tokens, 99 % up to 80, the longest 90")


def test_lengths_are_not_guessed_without_a_tokenizer(load: Any) -> None:
    (note,) = found(load, facts())
    assert "tokenizer is not on this machine" in note.message


def test_too_few_rows_for_a_batch(load: Any) -> None:
    problems = found(load, facts(rows=63, rows_read=63))
    assert ("VRL141", "error", 4) in said(problems)
    assert next(p for p in problems if p.code == "VRL141").suggestion == "set it to 63 or less, or give more data"
    assert "VRL141" not in [p.code for p in found(load, facts(rows=64, rows_read=64))]


def test_limit_on_samples_counts(load: Any) -> None:
    problems = found(load, facts(), CONFIG + "  train_max_samples: 10\n")
    assert ("VRL141", "error", 4) in said(problems)


def test_long_prompts_matter_when_they_are_an_error(load: Any) -> None:
    long = facts(rows=490, longest_prompt=130, p50_prompt=40, p99_prompt=99, too_long=10)
    problem = next(p for p in found(load, long) if p.code == "VRL142")
    assert problem.message == "10 of 500 prompts have more than 100 tokens, the longest 130"
    assert [p.code for p in found(load, long, CONFIG.replace("error", "left"))] == ["VRL144"]


def test_bad_rows_and_unreadable_files_are_errors_at_the_key(load: Any) -> None:
    problems = found(load, facts(bad_rows=2, first_bad="rows.parquet:7: has no column 'data_source'"))
    assert said(problems)[0] == ("VRL143", "error", 3)
    assert "rows.parquet:7" in problems[0].message
    assert "1 more bad row" in problems[0].message
    (problem,) = found(load, ConfigError("no such file", where="rows.parquet", fix="check the path"))
    assert (problem.message, problem.suggestion) == ("rows.parquet: no such file", "check the path")
