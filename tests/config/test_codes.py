from __future__ import annotations

import re
from pathlib import Path

import pytest

from verlcli.config.codes import all_codes, parse_code

PACKAGE = Path(__file__).parents[2] / "verlcli"


def test_every_code_in_the_source_is_explained() -> None:
    written = {
        code for file in PACKAGE.rglob("*.py") for code in re.findall(r'"(VRL\d{3})"', file.read_text(encoding="utf-8"))
    }
    assert written <= set(all_codes())
    assert len(all_codes()) > 130


@pytest.mark.parametrize("code", all_codes())
def test_an_explanation_says_what_why_and_what_instead(code: str) -> None:
    for found in all_codes()[code]:
        assert len(found.title) > 10
        assert len(found.why) > 30
        assert found.example
        # What data hold is no fault, and needs nothing instead.
        assert found.instead or code == "VRL144"


def test_no_two_explanations_of_a_code_have_one_title() -> None:
    for found in all_codes().values():
        assert len({each.title for each in found}) == len(found)


def test_parts_of_a_text_are_told_apart() -> None:
    text = """VRL999: a title over
        two lines.

        Why: because
            of this.
        Example:
            a:
              b: 1
        Instead: c
        """
    code = parse_code(text, "configs")
    assert (code.code, code.title, code.why) == ("VRL999", "a title over two lines", "because of this.")
    assert (code.example, code.instead, code.source, code.holds) == ("a:\n  b: 1", "c", "", "configs")


def test_text_without_a_code_is_refused() -> None:
    with pytest.raises(ValueError, match="no code"):
        parse_code("Why: nothing")
