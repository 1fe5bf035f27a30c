"""A launch of verl -> problems: every key, every rule that holds for it, and what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verlcli.config.context import Asked, NotKnown
from verlcli.config.data import with_data
from verlcli.config.problems import NOT_CHECKED, Problem
from verlcli.config.verl.keys import check_keys
from verlcli.config.verl.placing import problem_of
from verlcli.config.verl.rules import rules_for
from verlcli.config.verl.rules._base import VerlRule
from verlcli.config.verl.rules.files import files_at
from verlcli.config.verl.run import VerlRun

__all__ = ["check_rules", "check_run", "problem_of"]


def check_run(run: VerlRun) -> Iterator[Problem]:
    """Problems of one launch: its keys one by one, then the rules, which stay silent about keys that are wrong."""
    wrong: set[str] = set()
    data: list[Problem] = []
    if run.context.read_data is not None:
        run, data = _with_data(run)
    for key, problem in check_keys(run):
        if problem.severity == "error":
            wrong.add(key)
        yield problem
    found = list(check_rules(run, frozenset(wrong)))
    yield from found
    # Rows are bad because the column is missing.
    known = any(problem.code == "VRL225" and problem.severity == "error" for problem in found)
    of_rows = run.name("data.train_files") if run.context.data is not None and known else None
    yield from (problem for problem in data if problem.code != "VRL143" or problem.path != of_rows)


def _with_data(run: VerlRun) -> tuple[VerlRun, list[Problem]]:
    """The launch with what its training data hold."""
    if run.get("data.custom_cls.path") is not None:
        return run, [_unchecked(run, "the dataset class of data.custom_cls, which reads the rows itself", "VRL144")]
    try:
        context, problems = with_data(run.context, _asked(run, "data.train_files"))
        _, more = with_data(run.context, _asked(run, "data.val_files"))
    except NotKnown as fact:
        return run, [_unchecked(run, fact.need, "VRL144")] if fact.need else []
    return replace(run, context=context), [*problems, *more]


def _asked(run: VerlRun, key: str) -> Asked:
    """The files at `key`; what must stand beside the prompt depends on the reward, and is a rule's business."""
    files = files_at(run, key) if run.is_set(key) else []
    prompt, model = run.text("data.prompt_key") or "prompt", run.text("actor_rollout_ref.model.path")
    limit = run.integer("data.max_prompt_length")
    return Asked(run.name(key), run.value_place(key), files, prompt, model, limit, prompt_only=True)


def check_rules(run: VerlRun, wrong: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """Problems that rules find in one launch; silent about `wrong` keys, whose values are reported already."""
    needs: dict[str, dict[str, None]] = {}
    for rule in rules_for(run):
        yield from _verdicts(run, rule, wrong, needs)
    for need, codes in needs.items():
        yield _unchecked(run, need, *sorted(codes))


def _unchecked(run: VerlRun, need: str, *codes: str) -> Problem:
    """One note for all rules that lack the same fact."""
    return Problem(codes[0], "note", "", f"{NOT_CHECKED}{need} ({', '.join(codes)})").at(run.place)


def _verdicts(
    run: VerlRun, rule: VerlRule, wrong: frozenset[str], needs: dict[str, dict[str, None]]
) -> Iterator[Problem]:
    try:
        for verdict in rule.verdicts(run):
            if not wrong.intersection(verdict.keys):
                yield problem_of(run, verdict)
    except NotKnown as fact:
        if fact.need:
            needs.setdefault(fact.need, {})[rule.code] = None
