"""Values -> findings: what the schema says of single keys, in words, each with what was probably meant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from verlcli.config.corrections import choice_meant, number_meant, value_meant
from verlcli.config.key_fixes import choice_fix, key_fix, value_fix
from verlcli.config.keys import SHORT_FORMS, KeyPath, default_at, dotted, schema_at
from verlcli.config.problems import Fix
from verlcli.config.violations import Violation, violations
from verlcli.config.wording import any_of, key_advice, shown, wanted
from verlcli.resources import load_schema

_MOST_NAMES = 20  # listed in one message


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with one key.

    Attributes:
        code, path, message, suggestion: as in `Problem`.
        at_key: whether the key is wrong, and not its value.
        meant: keys that nobody set and that this one may stand for: no rule can say anything of them.
        fix: what is mechanical about it, with keys as in `path`; its place is filled in by the checker.
    """

    code: str
    path: KeyPath
    message: str
    suggestion: str | None = None
    at_key: bool = False
    meant: tuple[KeyPath, ...] = ()
    fix: Fix | None = None


def schema_findings(values: dict[str, Any]) -> Iterator[Finding]:
    """Everything in merged `values` that breaks the schema, `${...}` that nobody expands, and numbers without end."""
    if "extends" in values:
        yield Finding("VRL001", ("extends",), "works inside a file only", "name the preset as another config", True)
    unexpanded = list(_unexpanded(values, ()))
    yield from unexpanded
    places = {finding.path for finding in unexpanded}
    # `${LR}` is no number either, but that is not what to correct.
    wrong = [violation for violation in violations(load_schema("config"), values) if violation.path not in places]
    moved = _children_of_moved(wrong)
    yield from (_finding(violation, values) for violation in wrong if violation.path not in moved)
    yield from _not_finite(values, ())


def _children_of_moved(wrong: list[Violation]) -> set[KeyPath]:
    """Unknown keys that are unknown only because the line of their section is indented too far, so that it is empty."""
    unknown = [violation for violation in wrong if violation.keyword == "additionalProperties"]
    headers = [each for each in unknown if each.value is None and "properties" in (schema_at(each.path[-1:]) or {})]
    return {
        each.path
        for header in headers
        for each in unknown
        if each.path[:-1] == header.path[:-1] and schema_at((header.path[-1], each.path[-1])) is not None
    }


def _finding(violation: Violation, values: dict[str, Any]) -> Finding:
    path, node, value = violation.path, violation.node, violation.value
    if violation.keyword == "additionalProperties":
        return replace(_unknown(path, node, values), fix=key_fix(path, value))
    if violation.keyword == "type":
        message = f"{shown(value)} is not {wanted(node)}"
        fix = value_fix(path, node, value)
        return Finding("VRL002", path, message, value_meant(path, node, value), fix=fix)
    if violation.keyword == "enum":
        return _wrong_choice(path, node, value)
    if violation.keyword == "pattern":
        return Finding("VRL004", path, f"{shown(value)} is not understood", f"write {any_of(node['examples'])}")
    return Finding("VRL003", path, f"{shown(value)} {_range(violation.keyword, node)}", number_meant(node, value))


def _unknown(path: KeyPath, node: dict[str, Any], values: dict[str, Any]) -> Finding:
    advice = key_advice(path)
    if advice is not None:
        meant = tuple(key for key in advice.keys if _untouched(key, values))
        return Finding("VRL001", path, "unknown key", advice.text, at_key=True, meant=meant)
    section = f"`{dotted(path[:-1])}:`" if len(path) > 1 else "the top level"
    names = [key for key in node["properties"] if len(path) > 1 or key not in SHORT_FORMS]
    listed = len(names) <= _MOST_NAMES
    text = f"keys of {section}: {', '.join(names)}" if listed else f"see `verl schema {dotted(path[:-1])}`"
    return Finding("VRL001", path, "unknown key", text, at_key=True)


def _untouched(key: KeyPath, values: Any) -> bool:
    node = schema_at(key) or {}
    if "properties" in node:
        return True  # some of its keys are derived, so a look at the values would not tell
    for part in key:
        values = values.get(part) if isinstance(values, dict) else None
    return bool(values == default_at(node))


def _wrong_choice(path: KeyPath, node: dict[str, Any], value: Any) -> Finding:
    choices, fix = node["enum"], choice_fix(path, node, value)
    names = any_of("null" if choice is None else str(choice) for choice in choices)
    return Finding("VRL004", path, f"{shown(value)} is not one of: {names}", choice_meant(choices, value), fix=fix)


def _range(keyword: str, node: dict[str, Any]) -> str:
    limit = node.get(keyword)
    sentences = {
        "minimum": f"is below the smallest allowed value {limit}",
        "maximum": f"is above the largest allowed value {limit}",
        "exclusiveMinimum": f"is not above {limit}",
        "exclusiveMaximum": f"is not below {limit}",
        "minLength": "is empty",
        "minItems": f"has fewer than {limit} items",
        "maxItems": f"has more than {limit} items",
    }
    return sentences[keyword]


def _not_finite(value: Any, path: KeyPath) -> Iterator[Finding]:
    if isinstance(value, float) and not math.isfinite(value):
        yield Finding("VRL003", path, f"{value} is not a finite number")
    elif isinstance(value, (dict, list)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(child, (*path, key))


def _unexpanded(value: Any, path: KeyPath) -> Iterator[Finding]:
    """Strings with `${...}`, which nobody fills in here; what goes on to others as it is (free maps) may have them."""
    if isinstance(value, str) and "${" in value:
        key = dotted(path)
        advice = f"write the value, or give it from the shell: -o {key}=$NAME"
        yield Finding("VRL007", path, f"{shown(value)}: ${{...}} is not expanded", advice)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unexpanded(item, (*path, index))
    elif isinstance(value, dict) and "properties" in (schema_at(path) or {}):
        for name, child in value.items():
            yield from _unexpanded(child, (*path, name))
