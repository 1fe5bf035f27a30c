from __future__ import annotations

from collections.abc import Callable

from verlcli.config.problems import Problem

Problems = Callable[..., list[Problem]]
OLD = "actor_rollout_ref.rollout.update_weights_bucket_megabytes=512"  # a key up to 0.6


def said(problems: list[Problem]) -> str:
    """The one note about changed defaults; empty without one."""
    found = [problem for problem in problems if problem.code == "VRL265"]
    assert len(found) <= 1
    assert all(problem.severity == "note" for problem in found)
    return found[0].message if found else ""


def test_an_old_launch_hears_once_of_defaults_that_changed_since(problems_of: Problems) -> None:
    message = said(problems_of(OLD))
    assert message.startswith("keys of verl 0.6.1 in a launch for 0.9.1; of what it leaves unsaid has changed since: ")
    assert (
        "actor_rollout_ref.rollout.max_num_seqs is 256 since 0.9.0, before 1024 (fewer sequences at once: less memory, "
        "slower rollout)"
    ) in message
    assert "trainer.use_v1 is true since 0.9.0 (" in message
    assert "enforce_eager" not in message  # changed before 0.6.1


def test_what_somebody_sets_has_not_changed(problems_of: Problems) -> None:
    assert "max_num_seqs" not in said(problems_of(OLD, "actor_rollout_ref.rollout.max_num_seqs=512"))


def test_a_launch_of_today_and_one_checked_for_its_own_version_hear_nothing(problems_of: Problems) -> None:
    assert said(problems_of()) == ""
    assert said(problems_of("actor_rollout_ref.rollout.no_such_key=1")) == ""
    assert said(problems_of(OLD, version="0.6.1")) == ""


def test_flips_of_megatron_are_its_own(problems_of: Problems) -> None:
    key = "actor_rollout_ref.ref.megatron.param_offload"
    use_kl = "actor_rollout_ref.actor.use_kl_loss=True"
    assert key not in said(problems_of(OLD, use_kl))
    assert key in said(problems_of(OLD, use_kl, engine="megatron"))
    assert key not in said(problems_of(OLD, engine="megatron"))


def test_what_cannot_be_set_back_is_left_out(problems_of: Problems) -> None:
    message = said(problems_of(OLD, engine="megatron"))
    for key in ("rollout.mode", "data.return_raw_chat", "megatron.use_mbridge", "filter_groups", "critic."):
        assert key not in message
    assert "before null" not in message
    on = ("algorithm.filter_groups.enable=True", "critic.enable=True")
    message = said(problems_of(OLD, *on))
    assert "algorithm.filter_groups.metric" in message
    assert "critic.model.use_remove_padding is true since 0.8.0, before false" in message


def test_the_advice_names_what_can_be_set_back(problems_of: Problems) -> None:
    (found,) = (p for p in problems_of(OLD, "algorithm.filter_groups.enable=True") if p.code == "VRL265")
    assert found.suggestion is not None
    assert "actor_rollout_ref.rollout.max_num_seqs=1024" in found.suggestion
    assert "trainer.use_v1=false" in found.suggestion
    assert "filter_groups" not in found.suggestion
