"""Values that are quick to make: they compare and hash like frozen dataclasses, and a property is worked out once."""

from __future__ import annotations

import copy
import pickle
from dataclasses import fields, replace

import pytest

from verlcli.config.problems import Place
from verlcli.config.shell.types import Piece, Word
from verlcli.config.shell.types import Place as ShellPlace


@pytest.mark.parametrize("value", [Place("a.sh", 1, 2), Word(ShellPlace(1, 2), (Piece("x", ShellPlace(1, 2)),))])
def test_values_with_the_same_fields_are_the_same(value: Place | Word) -> None:
    twins = [replace(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))]
    assert {value, *twins} == {value}


@pytest.mark.parametrize("changed", [{"file": "b.sh"}, {"line": 9}, {"column": 9}, {"origin": "-o #1"}])
def test_a_value_with_another_field_is_another(changed: dict[str, object]) -> None:
    place = Place("a.sh", 1, 2)
    assert replace(place, **changed) != place
    assert set(changed) < {field.name for field in fields(Place)}


def test_a_property_is_worked_out_once_and_is_no_part_of_the_value() -> None:
    word = Word(ShellPlace(1, 1), (Piece("a", ShellPlace(1, 1)), Piece("b", ShellPlace(1, 2))))
    assert word.text_as_run is word.text_as_run
    assert word.text_as_run == "ab"
    assert word == replace(word)
    assert replace(word, parts=()).text_as_run == ""
