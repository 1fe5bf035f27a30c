"""Resolved -> problems: what the schema and the cross-key rules find, all at once, each at the place that caused it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from verlcli.config.build import build_config
from verlcli.config.context import Asked, Context, NotKnown
from verlcli.config.data import with_data
from verlcli.config.findings import Finding, schema_findings
from verlcli.config.key_fixes import as_written
from verlcli.config.keys import SHORT_FORMS, KeyPath, default_at, dotted, schema_at
from verlcli.config.layers import Origin
from verlcli.config.problems import NOT_CHECKED, Place, Problem, Related, Severity, in_order
from verlcli.config.resolve import Resolved
from verlcli.config.rules import CONTEXT_RULES, LOCAL_RULES, RULES, Verdict
from verlcli.config.types import Config
from verlcli.config.wording import shown


def check(resolved: Resolved, context: Context | None = None) -> list[Problem]:
    """Every problem of a resolved config, in order; a rule that lacks a fact of `context` says so."""
    findings = list(schema_findings(resolved.values))
    problems = [*resolved.problems, *(_problem(resolved, finding) for finding in findings)]
    bad = [path for finding in findings for path in (finding.path, *finding.meant)]
    problems += _rule_problems(resolved, bad, context or Context())
    problems += _launch_problems(resolved, bad, context or Context())
    return in_order(problems)


def _rule_problems(resolved: Resolved, bad: list[KeyPath], context: Context) -> Iterator[Problem]:
    """Rules see the config with wrong values taken back to their defaults, and stay silent about those keys."""
    config = build_config(_repaired(resolved.values, bad))
    roots = {dotted(path) for path in bad} | _shadowed(resolved, config)
    context, problems = _with_data(resolved, config, context)
    yield from problems
    for verdict in _verdicts(config, context):
        if isinstance(verdict, Problem):
            yield verdict
        elif not any(_touch(key, root) for key in verdict.keys for root in roots):
            keys = [tuple(key.split(".")) for key in verdict.keys]
            # Of the keys in conflict, point at one that somebody wrote.
            path = next((key for key in keys if _origin(resolved, key)), keys[0])
            if not verdict.of_presets and _wrote_preset(resolved, path):
                continue
            finding = Finding(verdict.code, path, verdict.message, verdict.suggestion)
            problem = _problem(resolved, finding, verdict.severity)
            yield replace(problem, related=tuple(_related(resolved, [key for key in keys if key != path])))


def _verdicts(config: Config, context: Context) -> Iterator[Verdict | Problem]:
    for rule in RULES:
        if config.backend != "verl" or rule not in LOCAL_RULES:
            yield from rule(config)
    for rule_with_facts in CONTEXT_RULES:
        try:
            yield from rule_with_facts(config, context)
        except NotKnown as fact:
            if fact.need:
                code = (rule_with_facts.__doc__ or "").partition(":")[0]
                yield Problem(code, "note", "", f"{NOT_CHECKED}{fact.need}")


def _with_data(resolved: Resolved, config: Config, context: Context) -> tuple[Context, list[Problem]]:
    """The context with what the training data hold; a launch of verl looks at them itself."""
    if context.read_data is None or config.backend == "verl":
        return context, []
    data, model = config.data, config.model.path
    asked = []
    for name, files in (("train_files", data.train_files), ("val_files", data.val_files)):
        origin = _origin(resolved, ("data", name))
        place = Place(origin.file, origin.line, origin.column, origin.label) if origin else Place()
        asked.append(Asked(f"data.{name}", place, files, data.prompt_key, model, data.max_prompt_length))
    found, problems = with_data(context, asked[0])
    return found, [*problems, *with_data(context, asked[1])[1]]


def _shadowed(resolved: Resolved, config: Config) -> frozenset[str]:
    """Keys that say nothing because `verl:` says it instead."""
    if config.backend != "verl" or not config.verl:
        return frozenset()
    from verlcli.config.verl.translate import shadowed_keys

    return shadowed_keys(resolved)


def _launch_problems(resolved: Resolved, bad: list[KeyPath], context: Context) -> Iterator[Problem]:
    """What a launch of verl with this config would run into, at the places of the config."""
    repaired = replace(resolved, values=_repaired(resolved.values, bad))
    if repaired.values.get("backend") != "verl":
        return
    from verlcli.config.verl.check import check_run
    from verlcli.config.verl.translate import run_of_translation, translate

    found = translate(repaired, context.verl_version)
    for ours, key in found.twice:
        path = tuple(ours.split("."))
        message = f"verl.{key} says something else, and holds: this has no effect"
        problem = _problem(resolved, Finding("VRL135", path, message, "keep one of the two"))
        yield replace(problem, related=tuple(_related(resolved, [("verl", *key.split("."))])))
    roots = {dotted(path) for path in bad}
    files = {origin.file for origin in resolved.places.values() if origin.kind == "file"}
    for problem in check_run(run_of_translation(found, context)):
        if not any(_touch(problem.path, root) for root in roots):
            # A preset is nobody's file to mend.
            mendable = problem.fix is not None and problem.fix.place.file in files
            yield problem if mendable else replace(problem, fix=None)


def _related(resolved: Resolved, paths: Iterable[KeyPath]) -> Iterator[Related]:
    for path in paths:
        origin = resolved.places.get(path)
        if origin is not None:
            place = Place(origin.file, origin.line, origin.column, origin.label)
            yield Related(origin.written or dotted(path), shown(origin.value), place)


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


def _problem(resolved: Resolved, finding: Finding, severity: Severity = "error") -> Problem:
    exact = resolved.places.get(finding.path)
    path = exact.written if exact else dotted(finding.path)
    origin = _origin(resolved, finding.path) or _around(resolved, finding.path)
    problem = Problem(finding.code, severity, path, finding.message, suggestion=finding.suggestion)
    if origin is None or origin.file is None:
        return replace(problem, origin=str(origin) if origin else None)
    line, column = (origin.key_line, origin.key_column) if finding.at_key else (origin.line, origin.column)
    if finding.fix is not None and exact is not None and exact.kind == "file":
        place = Place(origin.file, line, column)
        problem = replace(problem, fix=replace(as_written(finding.fix, finding.path, path), place=place))
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
