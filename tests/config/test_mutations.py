"""One fault in a preset: found on its line, with the right advice, and nothing else of it is wrong."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mutations.py"
KINDS = {
    *("misspelt key", "key at wrong level", "renamed key", "wrong type", "out of range", "bad choice"),
    *("conflicting pair", "duplicate key", "tab", "indent slip", "by -o"),
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutations", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(script: ModuleType) -> tuple[list[Any], list[Any]]:
    """Outcomes of a tenth of the corpus, and of the clean presets."""
    return script.outcomes(script.cases(per_kind=8))


def test_every_kind_of_fault_is_there(results: tuple[list[Any], list[Any]]) -> None:
    done, clean = results
    assert len(done) >= 400
    assert {each.case.kind for each in done} == KINDS
    assert len(clean) >= 6


def test_no_two_cases_are_the_same(script: ModuleType) -> None:
    corpus = script.cases(per_kind=8)
    assert len({(case.text, case.overrides) for case in corpus}) >= 0.97 * len(corpus)
    assert corpus == script.cases(per_kind=8)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_faults_of_a_kind_are_found_where_they_are(
    script: ModuleType, results: tuple[list[Any], list[Any]], kind: str
) -> None:
    done = [each for each in results[0] if each.case.kind == kind]
    sums = script.rates(done)
    shown = "\n".join(script.misses(done))
    assert sums.crashes == 0, shown
    assert sums.lines >= script.RIGHT_LINES, shown
    assert sums.suggestions >= script.RIGHT_SUGGESTIONS, shown
    assert sums.places >= script.RIGHT_LINES, shown


def test_one_fault_is_not_reported_as_many(script: ModuleType, results: tuple[list[Any], list[Any]]) -> None:
    done, _ = results
    assert script.rates(done).extra <= 0.03 * len(done), "\n".join(script.misses(done))


def test_clean_presets_have_no_problem(script: ModuleType, results: tuple[list[Any], list[Any]]) -> None:
    done, clean = results
    assert [each.said for each in clean] == [()] * len(clean)
    assert script.holds(done, clean)


def test_a_checker_that_misses_does_not_pass(script: ModuleType) -> None:
    case = script.Case("kind", "name", "text", ("VRL001",), 3, wants=("'lr'",), other=2)
    right = script.Outcome(case, (script.Said("VRL001", 3, "did you mean 'lr'?", "rl", (2,)),))
    assert (right.hit is not None, right.suggested, right.both_places, right.extra) == (True, True, True, 0)
    elsewhere = script.Outcome(case, (script.Said("VRL001", 4, "did you mean 'lr'?"),))
    assert (elsewhere.hit, elsewhere.suggested, elsewhere.extra) == (None, False, 1)
    silent = script.Outcome(case, (script.Said("VRL001", 3, "unknown key"),))
    assert (silent.suggested, silent.both_places) == (False, False)
    assert not script.holds([right] * 97 + [elsewhere] * 3, [])
    assert not script.holds([right] * 95 + [silent] * 5, [])
    assert not script.holds([right], [right])
    assert script.holds([right], [script.Outcome(case, ())])
