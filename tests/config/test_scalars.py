from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verlcli.config.loader import load_text
from verlcli.config.scalars import resolve_plain

FLOATS = {"1e-6": 1e-6, "1E-6": 1e-6, ".5": 0.5, "5.": 5.0, "-.5": -0.5, "1.5e+3": 1500.0, "1e3": 1000.0, "+1.0": 1.0}
INTEGERS = {"0": 0, "+1": 1, "-12": -12, "0o14": 12, "0x1F": 31, "0xff": 255, "08": 8, "010": 10, "-0": 0}
OTHERS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
    ".inf": math.inf,
    "+.INF": math.inf,
    "-.Inf": -math.inf,
}
# What YAML 1.1 loaders read as something else, and near misses of the forms above.
STRINGS = [
    "on",
    "On",
    "off",
    "yes",
    "no",
    "y",
    "n",
    "1_000",
    "1:30",
    "2024-01-01",
    "2024-01-01T10:00:00",
    "0b101",
    "0o8",
    "0xg",
    "-0x1",
    "+0o7",
    "e3",
    "1e",
    "1e+",
    "1.2.3",
    ".",
    "..",
    "+",
    "-",
    "tRUE",
    "nULL",
    "nan",
    "inf",
    ".Nan",
    "1,000",
    "0X1F",
    "0O7",
    "==",
]


@pytest.mark.parametrize(("text", "value"), [*FLOATS.items(), *INTEGERS.items(), *OTHERS.items()])
def test_core_scalar_has_its_value_and_type(text: str, value: object) -> None:
    assert (resolve_plain(text), type(resolve_plain(text))) == (value, type(value))


@pytest.mark.parametrize("text", STRINGS)
def test_everything_else_is_text(text: str) -> None:
    assert resolve_plain(text) == text


def test_nan_is_not_a_number() -> None:
    assert all(math.isnan(resolve_plain(text)) for text in (".nan", ".NaN", ".NAN"))  # type: ignore[arg-type]


@given(st.integers())
def test_any_integer_survives_decimal_octal_and_hex(number: int) -> None:
    assert resolve_plain(str(number)) == number
    if number >= 0:
        assert resolve_plain(f"0o{number:o}") == number
        assert resolve_plain(f"0x{number:X}") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_survives_its_usual_spellings(number: float) -> None:
    assert [resolve_plain(text) for text in (repr(number), f"{number:.17e}", f"{number:.17E}")] == [number] * 3


def test_a_number_too_long_to_be_meant_is_text() -> None:
    assert resolve_plain("9" * 5000) == "9" * 5000


@pytest.mark.parametrize("text", ["'1'", '"true"', "!!str 1", "'null'", "! 1"])
def test_quoted_or_tagged_scalar_stays_text(text: str) -> None:
    assert isinstance(load_text(text, "t").values, str)


@pytest.mark.parametrize(("text", "value"), [("!!int 0x10", 16), ("!!float 1", 1.0), ("!!bool true", True)])
def test_core_tag_that_agrees_is_accepted(text: str, value: object) -> None:
    loaded = load_text(text, "t").values
    assert (loaded, type(loaded)) == (value, type(value))
