"""A launch of verl -> problems: every key, every rule that holds for it, and what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from verlcli.config.context import NotKnown
from verlcli.config.data import Asked, with_data
from verlcli.config.problems import NOT_CHECKED, Problem
from verlcli.config.verl.keys import check_keys
from verlcli.config.verl.placing import problem_of
from verlcli.config.verl.rules import VERL_RULES
from verlcli.config.verl.rules._base import VerlRule
from verlcli.config.verl.rules.data import files_at
from verlcli.config.verl.run import VerlRun

__all__ = ["check_rules", "check_run", "problem_of"]

_NO_RL = frozenset({"sft", "sft_legacy", "eval", "r1_eval", "generation", "generation_server"})


def check_run(run: VerlRun) -> Iterator[Problem]:
    """Problems of one launch: its keys one by one, then the rules, which stay silent about keys that are wrong."""
    wrong: set[str] = set()
    if run.context.read_data is not None:
        run, problems = _with_data(run)
        yield from problems
    for key, problem in check_keys(run):
        if problem.severity == "error":
            wrong.add(key)
        yield problem
    yield from check_rules(run, frozenset(wrong))


def _with_data(run: VerlRun) -> tuple[VerlRun, list[Problem]]:
    """The launch with what its training data hold."""
    try:
        files = files_at(run, "data.train_files")
        key, model = run.text("data.prompt_key"), run.text("actor_rollout_ref.model.path")
        limit = run.integer("data.max_prompt_length")
    except NotKnown as fact:
        return run, [Problem("VRL144", "note", "", f"{NOT_CHECKED}{fact.need}").at(run.place)] if fact.need else []
    name, place = run.name("data.train_files"), run.value_place("data.train_files")
    asked = Asked(name, place, files, key or "prompt", model, limit)
    context, problems = with_data(run.context, asked)
    return replace(run, context=context), problems


def check_rules(run: VerlRun, wrong: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """Problems that rules find in one launch; silent about `wrong` keys, whose values are reported already."""
    for rule in VERL_RULES:
        if rule.holds_for(run) and (rule.entries or (run.entry or run.tree.entry) not in _NO_RL):
            yield from _verdicts(run, rule, wrong)


def _verdicts(run: VerlRun, rule: VerlRule, wrong: frozenset[str]) -> Iterator[Problem]:
    try:
        for verdict in rule.verdicts(run):
            if not wrong.intersection(verdict.keys):
                yield problem_of(run, verdict)
    except NotKnown as fact:
        if fact.need:
            yield Problem(rule.code, "note", "", f"{NOT_CHECKED}{fact.need}").at(run.place)
