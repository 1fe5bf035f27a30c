from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
BATCH, N, MINI = "data.train_batch_size", f"{ROLLOUT}.n", f"{ACTOR}.ppo_mini_batch_size"
MICRO, DYNAMIC = f"{ACTOR}.ppo_micro_batch_size_per_gpu", f"{ACTOR}.use_dynamic_bsz=True"
LOG_PROB = f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu"
ONE = f"{N}=1"
TP = f"{ACTOR}.megatron.tensor_model_parallel_size"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


@pytest.mark.parametrize("more", [(), (DYNAMIC,)])
def test_mini_batches_that_leave_a_rest(problems_of: ProblemsOf, more: tuple[str, ...]) -> None:
    (found,) = of("VRL206", problems_of(f"{MINI}=12", ONE, *more))
    assert (found.severity, found.path, found.line) == ("error", MINI, FIRST)
    assert "12 prompts × n=1 is 12 sequences; over 8 data-parallel ranks 4 are left" in found.message
    assert found.suggestion == (f"set {MINI} to 8 or 16" if more else f"set {MINI}=8 and {MICRO}=1")
    assert [other.path for other in found.related] == [N]


def test_samples_help_to_divide(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL206", problems_of(f"{MINI}=7", f"{N}=4"))
    assert "28 sequences; over 8 data-parallel ranks 4 are left" in found.message
    assert found.suggestion == f"set {MINI} to 8"  # 6 leaves 3 sequences a rank, and micro-batches take 4
    assert of("VRL206", problems_of(f"{MINI}=6", f"{N}=4", f"{MICRO}=1", f"{BATCH}=96")) == []


@pytest.mark.parametrize(
    ("overrides", "engine"),
    [
        (
            (f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size=4", f"{MINI}=6", ONE, f"{BATCH}=96", f"{MICRO}=1"),
            "dp",
        ),
        ((f"{TP}=4", f"{MINI}=6", ONE, f"{BATCH}=96", f"{MICRO}=1"), "megatron"),
    ],
)
def test_ranks_that_share_data_count_once(problems_of: ProblemsOf, overrides: tuple[str, ...], engine: str) -> None:
    assert of("VRL206", problems_of(*overrides, f"{LOG_PROB}=1", engine=engine)) == []


def test_older_trainers_round_down(problems_of: ProblemsOf) -> None:
    assert of("VRL206", problems_of(f"{MINI}=12", ONE, f"{MICRO}=1", version="0.7.1")) == []


def test_micro_batches_that_leave_a_rest(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL206", problems_of(f"{MINI}=16", ONE))
    assert (found.severity, found.path, found.line) == ("error", MICRO, 7)
    assert [other.place.line for other in found.related] == [FIRST, FIRST + 1]
    assert "16 sequences, 2 a rank; micro-batches of 4 do not divide that" in found.message
    assert found.suggestion == f"set {MICRO} to 1 or 2"
    assert of("VRL206", problems_of(f"{MINI}=16", ONE, DYNAMIC)) == []
    assert of("VRL206", problems_of(f"{MINI}=16", ONE, f"{MICRO}=2")) == []


def test_no_sequence_for_a_rank(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL206", problems_of(f"{MINI}=4", ONE, version="0.6.1"))
    assert "4 sequences, 0 a rank" in found.message
    assert found.suggestion == f"raise {MINI} to 8"


def test_a_critic_of_its_own(problems_of: ProblemsOf) -> None:
    critic = ("critic.enable=True", "critic.ppo_micro_batch_size_per_gpu=4", "critic.ppo_mini_batch_size=12", ONE)
    found = of("VRL206", problems_of(*critic))
    assert [problem.path for problem in found] == ["critic.ppo_mini_batch_size"]


@pytest.mark.parametrize(("version", "good"), [("0.6.1", "96 or 128"), ("0.9.1", "96 or 128")])
def test_steps_that_leave_a_rest(problems_of: ProblemsOf, version: str, good: str) -> None:
    overrides = (f"{BATCH}=100", f"{MINI}=32", ONE)
    (found,) = of("VRL206", problems_of(*overrides, version=version))
    assert (found.severity, found.path, found.line) == ("error", BATCH, FIRST)
    assert "is 100 sequences, handed out in groups of 8: 4 are left" in found.message
    assert found.suggestion == f"set {BATCH} to {good}"  # whole mini-batches


def test_megatron_steps_count_micro_batches(problems_of: ProblemsOf) -> None:
    overrides = (f"{BATCH}=48", f"{MINI}=32", ONE)
    (found,) = of("VRL206", problems_of(*overrides, engine="megatron"))
    assert "handed out in groups of 32: 16 are left" in found.message


def test_dynamic_steps(problems_of: ProblemsOf) -> None:
    overrides = (f"{BATCH}=100", f"{MINI}=32", ONE, DYNAMIC)
    assert of("VRL206", problems_of(*overrides)) == []  # filled up
    assert len(of("VRL206", problems_of(*overrides, version="0.7.1"))) == 1
    assert len(of("VRL206", problems_of(*overrides, "trainer.use_v1=False"))) == 1


def test_log_probs_that_leave_a_rest(problems_of: ProblemsOf) -> None:
    overrides = (f"{BATCH}=64", f"{MINI}=64", ONE, f"{LOG_PROB}=16")
    (found,) = of("VRL206", problems_of(*overrides))
    assert (found.severity, found.path, found.line) == ("error", LOG_PROB, FIRST + 3)
    assert "a step of 64 sequences is 8 a rank over 8 ranks" in found.message
    assert found.suggestion == "set it to 2, 4 or 8"
    assert of("VRL206", problems_of(*overrides, "algorithm.rollout_correction.bypass_mode=True")) == []
    assert of("VRL206", problems_of(*overrides, DYNAMIC)) == []


def test_reference_passes_are_counted_when_there_is_a_copy(problems_of: ProblemsOf) -> None:
    key = "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu"
    overrides = (f"{BATCH}=64", f"{MINI}=64", ONE, f"{key}=16")
    assert of("VRL206", problems_of(*overrides)) == []
    (found,) = of("VRL206", problems_of(*overrides, f"{ACTOR}.use_kl_loss=True"))
    assert found.path == key
    lora = "actor_rollout_ref.model.lora_rank=8"
    assert of("VRL206", problems_of(*overrides, f"{ACTOR}.use_kl_loss=True", lora)) == []


def test_fully_async_counts_no_step(problems_of: ProblemsOf) -> None:
    overrides = (f"{BATCH}=0", "trainer.n_gpus_per_node=4", f"{MINI}=6", ONE, f"{MICRO}=1")
    (found,) = of("VRL206", problems_of(*overrides, entry="fully_async"))
    assert "over 4 data-parallel ranks 2 are left" in found.message


def test_gpus_known_at_run_time_only(problems_of: ProblemsOf) -> None:
    assert of("VRL206", problems_of("trainer.n_gpus_per_node=${oc.env:GPUS}", f"{MINI}=12", ONE)) == []


def test_step_and_mini_batch_are_advised_together(problems_of: ProblemsOf) -> None:
    overrides = ("trainer.n_gpus_per_node=7", f"{ROLLOUT}.tensor_model_parallel_size=1", f"{BATCH}=256", f"{MINI}=256")
    found = of("VRL206", problems_of(*overrides))
    assert {problem.path for problem in found} == {BATCH, MINI}
    assert {problem.suggestion for problem in found} == {f"set {BATCH}=259 and {MINI}=259"}
    both = problems_of(*overrides, f"{BATCH}=259", f"{MINI}=259")
    assert [problem.code for problem in both if problem.severity != "note"] == []
