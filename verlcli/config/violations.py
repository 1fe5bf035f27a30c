"""Values against the config schema: every keyword that is broken, with its path; one for each unknown key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from verlcli.config.keys import KeyPath


@dataclass(frozen=True, slots=True)
class Violation:
    """`keyword` of schema `node` does not hold for `value` at `path`."""

    keyword: str
    path: KeyPath
    node: dict[str, Any]
    value: Any


def violations(schema: dict[str, Any], value: Any) -> list[Violation]:
    """Every violation of `schema` (Draft 2020-12) by `value`; below a wrong type nothing more is reported."""
    from jsonschema.validators import Draft202012Validator  # 40 ms, so not on the way to --help

    found = [each for error in Draft202012Validator(schema).iter_errors(value) for each in _read(error)]
    wrong_types = {each.path for each in found if each.keyword == "type"}
    return [each for each in found if each.keyword == "type" or each.path not in wrong_types]


def _read(error: Any) -> Iterator[Violation]:
    path = tuple(error.absolute_path)
    if error.validator != "additionalProperties":
        yield Violation(error.validator, path, error.schema, error.instance)
        return
    # One error for the section as a whole, as jsonschema gives it, names no line.
    for key, child in error.instance.items():
        if key not in error.schema["properties"]:
            yield Violation("additionalProperties", (*path, key), error.schema, child)
