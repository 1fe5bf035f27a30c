from __future__ import annotations

import pytest

from verlcli.config.problems import Problem, in_order
from verlcli.config.report import github_report, json_report, text_report, unreadable
from verlcli.errors import ConfigError

IN_FILE = Problem("VRL001", "error", "a.b", "unknown key", "x.yaml", 3, 5, "did you mean 'c'?", "x.yaml:3:5")
OUTSIDE = Problem("VRL002", "warning", "c", "odd", origin="-o #2")


def test_text_has_a_line_a_problem_and_a_count() -> None:
    assert text_report([IN_FILE, OUTSIDE]).split("\n") == [
        "x.yaml:3:5 error VRL001 a.b: unknown key; did you mean 'c'?",
        "-o #2 warning VRL002 c: odd",
        "1 error, 1 warning",
    ]


@pytest.mark.parametrize(
    ("problems", "count"),
    [([], "no problems"), ([IN_FILE] * 2, "2 errors"), ([OUTSIDE], "1 warning"), ([OUTSIDE] * 2, "2 warnings")],
)
def test_count_is_grammatical(problems: list[Problem], count: str) -> None:
    assert text_report(problems).split("\n")[-1] == count


def test_json_is_ok_with_warnings_alone() -> None:
    assert json_report([OUTSIDE])["ok"] is True
    assert json_report([IN_FILE])["ok"] is False
    assert json_report([IN_FILE])["problems"][0]["line"] == 3


def test_github_annotations_escape_what_the_format_uses() -> None:
    odd = Problem("VRL001", "error", "k", "100%\nsure", "a,b:c.yaml", 1, 2, origin="a")
    assert github_report([odd]) == "::error file=a%2Cb%3Ac.yaml,line=1,col=2,title=VRL001::k: 100%25%0Asure"
    assert github_report([OUTSIDE]) == "::warning title=VRL002::-o #2: c: odd"


@pytest.mark.parametrize(
    ("where", "place"),
    [("a.yaml:3:7", ("a.yaml", 3, 7)), ("a.yaml:3", ("a.yaml", 3, 1)), ("a.yaml", (None, 0, 0)), (None, (None, 0, 0))],
)
def test_unreadable_input_is_a_problem_like_the_others(where: str | None, place: object) -> None:
    problem = unreadable(ConfigError("bad", where=where, fix="mend it"), "a.yaml")
    assert (problem.file, problem.line, problem.column) == place
    assert (problem.code, problem.suggestion) == ("VRL000", "mend it")
    assert text_report([problem]).startswith("a.yaml")


def test_a_sentence_said_often_is_said_once_with_its_places_and_the_rest_stays_in_order() -> None:
    often = [Problem("VRL263", "error", f"k{n}", "is gone", "x.yaml", n, 1, origin="x") for n in (2, 4, 5)]
    twice = [Problem("VRL001", "error", f"t{n}", "unknown", "x.yaml", n, 1, origin="x") for n in (1, 3)]
    lines = text_report(sorted([*often, *twice], key=lambda problem: problem.line)).split("\n")
    assert lines == [
        "x.yaml:1:1 error VRL001 t1: unknown",
        "x.yaml:2:1 error VRL263 k2: is gone",
        "    the same 2 times more: 4 k4, 5 k5",
        "x.yaml:3:1 error VRL001 t3: unknown",
        "5 errors",
    ]


def test_rules_that_lack_the_same_fact_are_one_line_for_a_file() -> None:
    needs = "not checked: needs the cluster"
    first = Problem("VRL211", "note", "", f"{needs} (VRL211, VRL214)", "run.sh", 3, 1)
    second = Problem("VRL214", "note", "", f"{needs} (VRL214, VRL222)", "run.sh", 9, 1)
    alone = Problem("VRL203", "note", "", needs, "other.sh", 1, 1)
    assert text_report([first, second, alone]).split("\n") == [
        f"run.sh: VRL211, VRL214, VRL222 {needs}",
        f"other.sh: VRL203 {needs}",
        "no problems",
    ]


def test_a_value_that_is_an_error_is_not_doubted_besides() -> None:
    wrong = Problem("VRL143", "error", "data.train_files", "no such file", "a.yaml", 3, 5)
    doubt = Problem("VRL129", "warning", "data.train_files", "no such file here", "a.yaml", 3, 5)
    other = Problem("VRL129", "warning", "data.val_files", "no such file here", "a.yaml", 4, 5)
    assert in_order([doubt, wrong, other]) == [wrong, other]
    assert in_order([doubt, other]) == [doubt, other]
