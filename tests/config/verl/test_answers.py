"""Launches of one script are told together what each would be told alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from verlcli.config.context import Context, NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.answers import Answers
from verlcli.config.verl.check import check_run
from verlcli.config.verl.read_script import read_script_runs
from verlcli.config.verl.rules._base import rule
from verlcli.config.verl.run import VerlRun

RunOf = Callable[..., VerlRun]
SCRIPTS = sorted(Path(__file__).with_name("scripts").iterdir())
VARIED = """
if [ "$M" = big ]; then TP=3; N=1; else TP=2; N=4; fi
python3 -m verl.trainer.main_ppo data.train_batch_size=100 actor_rollout_ref.rollout.n=$N trainer.n_gpus_per_node=8 \\
  actor_rollout_ref.rollout.tensor_model_parallel_size=$TP actor_rollout_ref.model.pth=x trainer.nnodes=2 \\
  trainer.experiment_name='tp-${actor_rollout_ref.rollout.n}-${no.key}' +trainer.logger=console $EXTRA
"""


def _together(*runs: VerlRun) -> list[VerlRun]:
    answers = Answers()
    answers.several = True
    return [replace(run, answers=answers) for run in runs]


@pytest.mark.parametrize("text", [VARIED, *(file.read_text("utf-8") for file in SCRIPTS)])
def test_launches_of_a_script_are_told_what_each_is_told_alone(text: str) -> None:
    runs, _ = read_script_runs("run.sh", text, Context())
    alone = [list(check_run(replace(run, answers=Answers()))) for run in runs]
    assert [list(check_run(run)) for run in runs] == alone
    assert [list(check_run(run)) for run in _together(*reversed(runs))] == alone[::-1]


def test_a_check_runs_again_only_where_an_answer_differs(run_of: RunOf) -> None:
    said: list[int] = []

    @rule()
    def counts(run: VerlRun) -> Iterator[Verdict]:
        """VRL999: a rule that asks for one key."""
        said.append(run.integer("actor_rollout_ref.rollout.n"))
        yield Verdict("VRL999", ("actor_rollout_ref.rollout.n",), f"n is {said[-1]}", None)

    base, same, other = _together(run_of(), run_of("trainer.save_freq=7"), run_of("actor_rollout_ref.rollout.n=4"))
    told = [next(counts.verdicts(run)).message for run in (base, same, other)]
    assert (told, said) == (["n is 8", "n is 8", "n is 4"], [8, 4])


@pytest.mark.parametrize("look", [VerlRun.every_setting, lambda run: run.under("trainer")])
def test_every_setting_and_a_section_are_questions_too(run_of: RunOf, look: Callable[[VerlRun], object]) -> None:
    base, more = _together(run_of(), run_of("trainer.save_freq=7"))
    told = [base.once("look", lambda: look(base)), more.once("look", lambda: look(more))]
    assert told == [look(base), look(more)]
    assert told[0] != told[1]


def test_a_fact_that_is_missing_is_missing_for_both(run_of: RunOf) -> None:
    @rule()
    def needs(run: VerlRun) -> Iterator[Verdict]:
        """VRL999: a rule that needs the cluster."""
        yield Verdict("VRL999", (), f"{run.cluster.nodes}", None)

    for run in _together(run_of(), run_of("trainer.save_freq=7")):
        with pytest.raises(NotKnown, match="the cluster"):
            list(needs.verdicts(run))


def test_launches_that_differ_in_more_than_settings_share_nothing(run_of: RunOf) -> None:
    @rule()
    def looks(run: VerlRun) -> Iterator[Verdict]:
        """VRL999: a rule that looks at the environment."""
        yield Verdict("VRL999", (), run.environment["X"].value or "", None)

    runs = _together(run_of(env={"X": "1"}), run_of(env={"X": "2"}))
    assert [next(looks.verdicts(run)).message for run in runs] == ["1", "2"]
