from __future__ import annotations

from collections.abc import Callable

from verlcli.config.problems import Problem

Problems = Callable[..., list[Problem]]
OLD = "actor_rollout_ref.rollout.update_weights_bucket_megabytes=512"  # a key up to 0.6


def flips(problems: list[Problem]) -> dict[str, str]:
    return {problem.path: problem.message for problem in problems if problem.code == "VRL265"}


def test_an_old_launch_hears_of_defaults_that_changed_since(problems_of: Problems) -> None:
    found = flips(problems_of(OLD))
    assert found["actor_rollout_ref.rollout.max_num_seqs"] == (
        "nobody sets actor_rollout_ref.rollout.max_num_seqs: it was 1024 in verl 0.6.1, and is 256 since 0.9.0 "
        "(fewer sequences at once: less memory, slower rollout)"
    )
    assert "actor_rollout_ref.rollout.enforce_eager" not in found  # changed before 0.6.1
    (problem,) = [p for p in problems_of(OLD) if p.code == "VRL265" and p.path.endswith("max_num_seqs")]
    assert (problem.severity, problem.suggestion) == (
        "note",
        "write actor_rollout_ref.rollout.max_num_seqs=1024 to keep what it did",
    )


def test_what_somebody_sets_has_not_changed(problems_of: Problems) -> None:
    assert "actor_rollout_ref.rollout.max_num_seqs" not in flips(
        problems_of(OLD, "actor_rollout_ref.rollout.max_num_seqs=512")
    )


def test_a_launch_of_today_and_one_checked_for_its_own_version_hear_nothing(problems_of: Problems) -> None:
    assert flips(problems_of()) == {}
    assert flips(problems_of("actor_rollout_ref.rollout.no_such_key=1")) == {}
    assert flips(problems_of(OLD, version="0.6.1")) == {}


def test_flips_of_megatron_are_its_own(problems_of: Problems) -> None:
    assert "actor_rollout_ref.actor.megatron.use_mbridge" not in flips(problems_of(OLD))
    assert "actor_rollout_ref.actor.megatron.use_mbridge" in flips(problems_of(OLD, engine="megatron"))
