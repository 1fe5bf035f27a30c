"""The executor keeps the declared order."""

from __future__ import annotations

import pytest

from verlcli.engine.dataflow import Stage, in_order, run_in_turn


def stage(name: str, *after: str) -> Stage[list[str]]:
    return Stage(name, after, lambda state: state.append(name))


def test_a_stage_runs_after_what_it_waits_for() -> None:
    state: list[str] = []
    seconds = run_in_turn(
        [stage("update", "reward", "values"), stage("reward", "rollout"), stage("values", "rollout"), stage("rollout")],
        state,
    )
    assert state == ["rollout", "reward", "values", "update"]
    assert list(seconds) == state
    assert all(value >= 0 for value in seconds.values())


@pytest.mark.parametrize("stages", [[stage("a", "b"), stage("b", "a")], [stage("a", "absent")]])
def test_a_graph_that_cannot_run_is_refused(stages: list[Stage[list[str]]]) -> None:
    with pytest.raises(ValueError, match="can never run: a after"):
        in_order(stages)
