"""Resolved -> problems: what the schema and the cross-key rules find, all at once, each at the place that caused it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from verlcli.config.build import build_config
from verlcli.config.keys import SHORT_FORMS, KeyPath, accepts, default_at, dotted, schema_at
from verlcli.config.layers import Origin
from verlcli.config.problems import Problem, Severity
from verlcli.config.resolve import Resolved
from verlcli.config.rules import RULES
from verlcli.config.violations import Violation, violations
from verlcli.config.wording import any_of, better_key, closest, shown, wanted
from verlcli.resources import load_schema

_MOST_NAMES = 20  # listed in one message


@dataclass(frozen=True, slots=True)
class _Finding:
    code: str
    path: KeyPath
    message: str
    suggestion: str | None = None
    at_key: bool = False


def check(resolved: Resolved) -> list[Problem]:
    """Every problem of a resolved config, sorted by file and line; those without a file come last."""
    findings = list(_schema_findings(resolved.values))
    problems = [*resolved.problems, *(_problem(resolved, finding) for finding in findings)]
    problems += _rule_problems(resolved, [finding.path for finding in findings])
    return sorted(_once(problems), key=_order)


def _order(problem: Problem) -> tuple[Any, ...]:
    origin = problem.origin or ""
    # By length first, so that `-o #10` comes after `-o #9`.
    return (problem.file is None, problem.file or "", problem.line, problem.column, len(origin), origin, problem.path)


def _once(problems: Iterable[Problem]) -> list[Problem]:
    # A shared section gives the same wrong value to several roles.
    return list(dict.fromkeys(problems))


def _schema_findings(values: dict[str, Any]) -> Iterator[_Finding]:
    if "extends" in values:
        yield _Finding("VRL001", ("extends",), "works inside a file only", "name the preset as another config", True)
    unexpanded = list(_unexpanded(values, ()))
    yield from unexpanded
    places = {finding.path for finding in unexpanded}
    # `${LR}` is no number either, but that is not what to correct.
    wrong = violations(load_schema("config"), values)
    yield from (_finding(violation) for violation in wrong if violation.path not in places)
    yield from _not_finite(values, ())


def _finding(violation: Violation) -> _Finding:
    path, node, value = violation.path, violation.node, violation.value
    if violation.keyword == "additionalProperties":
        return _unknown(path, node)
    if violation.keyword == "type":
        return _wrong_type(path, node, value)
    if violation.keyword == "enum":
        return _wrong_choice(path, node["enum"], value)
    if violation.keyword == "pattern":
        return _Finding("VRL004", path, f"{shown(value)} is not understood", f"write {any_of(node['examples'])}")
    return _Finding("VRL003", path, f"{shown(value)} {_range(violation.keyword, node)}")


def _unknown(path: KeyPath, node: dict[str, Any]) -> _Finding:
    advice = better_key(path)
    if advice is None:
        section = f"`{dotted(path[:-1])}:`" if len(path) > 1 else "the top level"
        names = [key for key in node["properties"] if len(path) > 1 or key not in SHORT_FORMS]
        listed = len(names) <= _MOST_NAMES
        advice = f"keys of {section}: {', '.join(names)}" if listed else f"see `verl schema {dotted(path[:-1])}`"
    return _Finding("VRL001", path, "unknown key", advice, at_key=True)


def _wrong_type(path: KeyPath, node: dict[str, Any], value: Any) -> _Finding:
    suggestion = None
    if isinstance(value, str) and accepts(node, "boolean") and value.lower() in ("yes", "on", "y", "no", "off", "n"):
        suggestion = f"write {'true' if value.lower() in ('yes', 'on', 'y') else 'false'}"
    elif isinstance(value, str) and _number_in(value) and (accepts(node, "number") or accepts(node, "integer")):
        suggestion = f"write {_number_in(value)}"
    return _Finding("VRL002", path, f"{shown(value)} is not {wanted(node)}", suggestion)


def _number_in(text: str) -> str | None:
    plain = text.strip().replace("_", "").replace(",", "")
    try:
        return plain if math.isfinite(float(plain)) and len(plain) < 30 else None
    except ValueError:
        return None


def _wrong_choice(path: KeyPath, choices: list[Any], value: Any) -> _Finding:
    close = closest(value, [choice for choice in choices if isinstance(choice, str)]) if value is not None else None
    suggestion = f"did you mean '{close}'?" if close else None
    names = any_of("null" if choice is None else str(choice) for choice in choices)
    return _Finding("VRL004", path, f"{shown(value)} is not one of: {names}", suggestion)


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


def _not_finite(value: Any, path: KeyPath) -> Iterator[_Finding]:
    if isinstance(value, float) and not math.isfinite(value):
        yield _Finding("VRL003", path, f"{value} is not a finite number")
    elif isinstance(value, (dict, list)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _not_finite(child, (*path, key))


def _unexpanded(value: Any, path: KeyPath) -> Iterator[_Finding]:
    """Strings with `${...}`, which nobody fills in here; what goes on to others as it is (free maps) may have them."""
    if isinstance(value, str) and "${" in value:
        key = dotted(path)
        advice = f"write the value, or give it from the shell: -o {key}=$NAME"
        yield _Finding("VRL007", path, f"{shown(value)}: ${{...}} is not expanded", advice)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unexpanded(item, (*path, index))
    elif isinstance(value, dict) and "properties" in (schema_at(path) or {}):
        for name, child in value.items():
            yield from _unexpanded(child, (*path, name))


def _rule_problems(resolved: Resolved, bad: list[KeyPath]) -> Iterator[Problem]:
    """Rules see the config with wrong values taken back to their defaults, and stay silent about those keys."""
    config = build_config(_repaired(resolved.values, bad))
    roots = {dotted(path) for path in bad}
    for rule in RULES:
        for verdict in rule(config):
            if not any(_touch(key, root) for key in verdict.keys for root in roots):
                keys = [tuple(key.split(".")) for key in verdict.keys]
                # Of the keys in conflict, point at one that somebody wrote.
                path = next((key for key in keys if _origin(resolved, key)), keys[0])
                if not verdict.of_presets and _wrote_preset(resolved, path):
                    continue
                finding = _Finding(verdict.code, path, verdict.message, verdict.suggestion)
                yield _problem(resolved, finding, verdict.severity)


def _wrote_preset(resolved: Resolved, path: KeyPath) -> bool:
    origin = _origin(resolved, path)
    return origin is not None and origin.kind == "preset"


def _touch(key: str, other: str) -> bool:
    return key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.")


def _repaired(values: dict[str, Any], bad: list[KeyPath]) -> dict[str, Any]:
    fixed = deepcopy(values)
    for path in bad:
        _reset(fixed, path)
    return {key: value for key, value in fixed.items() if key not in SHORT_FORMS}


def _reset(values: dict[str, Any], path: KeyPath) -> None:
    # An item of a list takes the whole list back: the schema has no default for one item.
    leaf = next((path[:end] for end in range(1, len(path)) if isinstance(path[end], int)), path)
    parent: Any = values
    for key in leaf[:-1]:
        parent = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(parent, dict):
        return
    node = schema_at(leaf)
    if node:
        parent[leaf[-1]] = default_at(node)
    else:
        parent.pop(leaf[-1], None)


def _problem(resolved: Resolved, finding: _Finding, severity: Severity = "error") -> Problem:
    exact = resolved.places.get(finding.path)
    path = exact.written if exact else dotted(finding.path)
    origin = _origin(resolved, finding.path) or _around(resolved, finding.path)
    problem = Problem(finding.code, severity, path, finding.message, suggestion=finding.suggestion)
    if origin is None or origin.file is None:
        return replace(problem, origin=str(origin) if origin else None)
    line, column = (origin.key_line, origin.key_column) if finding.at_key else (origin.line, origin.column)
    return replace(problem, file=origin.file, line=line, column=column, origin=f"{origin.file}:{line}:{column}")


def _origin(resolved: Resolved, path: KeyPath) -> Origin | None:
    """Origin of a key, or of a key inside it: `-o a.b=1` writes `a` too."""
    if path in resolved.places:
        return resolved.places[path]
    return next((origin for place, origin in resolved.places.items() if place[: len(path)] == path), None)


def _around(resolved: Resolved, path: KeyPath) -> Origin | None:
    """Origin of the closest section around a key that nobody wrote; the file itself at last."""
    for end in range(len(path) - 1, -1, -1):
        origin = resolved.places.get(path[:end])
        if origin is not None:
            return origin
    return None
