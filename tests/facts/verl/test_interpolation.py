"""Interpolations as OmegaConf resolves them."""

from __future__ import annotations

from typing import Any

import pytest

from verlcli.facts.verl.interpolation import UNRESOLVED, absolute, resolve

VALUES = {"a.b": 3, "a.s": "text", "a.c.d": True, "n": None, "l": [1, 2]}


def get(key: str) -> Any:
    return VALUES.get(key, UNRESOLVED)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        ("plain", "plain"),
        ("", ""),
        ("${a.b}", 3),
        ("${a.c.d}", True),
        ("${n}", None),
        ("${l}", [1, 2]),
        ("x/${a.s}/${a.b}", "x/text/3"),
        ("${.b}", 3),
        ("${..n}", None),
        ("${oc.select:a.b,9}", 3),
        ("${oc.select:a.missing,9}", 9),
        ("${oc.select:a.missing, False}", False),
        ("${oc.select:a.missing,null}", None),
        ("${oc.select:a.missing}", None),
        ("${oc.select:n,9}", None),
        ("${oc.select:a.missing,[]}", []),
        ("${oc.select:a.missing,${oc.select:a.b,1}}", 3),
        ('${oc.select:a.missing,"~/models"}', "~/models"),
        ("${oc.env:HERE,no}", "yes"),
        ("${oc.env:NOT_HERE,no}", False),  # YAML's own reading of no
        ("${oc.env:NOT_HERE}", UNRESOLVED),
        ("${a.missing}", UNRESOLVED),
        ("x/${a.missing}", UNRESOLVED),
        ("${own.resolver:1}", UNRESOLVED),
        ("${a.b", UNRESOLVED),
        ("???", UNRESOLVED),
        (["${a.b}", 1], [3, 1]),
        (["${a.missing}", 1], UNRESOLVED),
    ],
)
def test_resolve(value: Any, expected: Any) -> None:
    found = resolve(value, "a.here", get, {"HERE": "yes"})
    assert found is expected if expected is UNRESOLVED else found == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("x.y", "x.y"), (".y", "a.b.y"), ("..y", "a.y"), ("...y", "y"), ("..c.y", "a.c.y")]
)
def test_relative_names(name: str, expected: str) -> None:
    assert absolute(name, "a.b.here") == expected


def test_unresolved_is_false_and_prints() -> None:
    assert not UNRESOLVED
    assert repr(UNRESOLVED) == "UNRESOLVED"
