from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR, REF = "actor_rollout_ref.actor", "actor_rollout_ref.ref"
SP, OLD_SP = f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size", f"{ACTOR}.ulysses_sequence_parallel_size"
REF_SP = f"{REF}.fsdp_config.ulysses_sequence_parallel_size"
MEGATRON = f"{ACTOR}.megatron"
PACKING = "actor_rollout_ref.model.use_remove_padding"
KL = f"{ACTOR}.use_kl_loss=True"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


@pytest.mark.parametrize("key", [SP, OLD_SP])
def test_sequence_ranks_that_leave_a_rest(problems_of: ProblemsOf, key: str) -> None:
    (found,) = of("VRL204", problems_of(f"{key}=3"))
    assert (found.severity, found.path, found.line) == ("error", key, FIRST)
    assert "the actor takes 3 GPUs for one copy of the data, which does not divide the 8 GPUs" in found.message
    assert found.suggestion == f"set {key} to 1, 2 or 4"


def test_each_role_that_says_its_own(problems_of: ProblemsOf) -> None:
    both = of("VRL204", problems_of(f"{SP}=3", f"{REF_SP}=5", KL))
    assert [found.line for found in both] == [FIRST, FIRST + 1]
    assert "the ref takes 5 GPUs" in both[1].message
    # The reference follows the actor's older key, and would only repeat it.
    assert [found.path for found in of("VRL204", problems_of(f"{OLD_SP}=3", KL))] == [OLD_SP]


@pytest.mark.parametrize("dynamic", ["False", "True"])
def test_megatron_ranks_that_leave_a_rest(problems_of: ProblemsOf, dynamic: str) -> None:
    overrides = (f"{MEGATRON}.tensor_model_parallel_size=3", f"{ACTOR}.use_dynamic_bsz={dynamic}")
    (found,) = of("VRL204", problems_of(*overrides, engine="megatron"))
    assert (found.severity, found.line) == ("error", FIRST)
    assert "takes 3 × 1 × 1 = 3 GPUs" in found.message
    assert found.suggestion == f"set {MEGATRON}.tensor_model_parallel_size to 1, 2, 4 or 8"


def test_other_sizes_count_for_the_advice(problems_of: ProblemsOf) -> None:
    overrides = (f"{MEGATRON}.tensor_model_parallel_size=4", f"{MEGATRON}.pipeline_model_parallel_size=4")
    (found,) = of("VRL204", problems_of(*overrides, engine="megatron"))
    assert "4 × 4 × 1 = 16 GPUs" in found.message
    assert found.suggestion == f"set {MEGATRON}.tensor_model_parallel_size to 1 or 2"


@pytest.mark.parametrize(
    ("overrides", "advice"),
    [
        ((f"{MEGATRON}.expert_model_parallel_size=3",), "expert_model_parallel_size to 1, 2, 4 or 8"),
        (
            (f"{MEGATRON}.expert_model_parallel_size=4", f"{MEGATRON}.tensor_model_parallel_size=4"),
            f"set {MEGATRON}.expert_tensor_parallel_size=1",
        ),
    ],
)
def test_experts_that_leave_a_rest(problems_of: ProblemsOf, overrides: tuple[str, ...], advice: str) -> None:
    (found,) = of("VRL204", problems_of(*overrides, engine="megatron"))
    assert (found.severity, found.line) == ("error", FIRST)
    assert advice in (found.suggestion or "")


@pytest.mark.parametrize(
    ("overrides", "engine"),
    [
        ((f"{SP}=4",), "dp"),
        ((f"{MEGATRON}.tensor_model_parallel_size=4", f"{MEGATRON}.context_parallel_size=2"), "megatron"),
        ((f"{MEGATRON}.expert_model_parallel_size=8",), "megatron"),
        ((f"{REF_SP}=3",), "dp"),  # no reference policy
    ],
)
def test_sizes_that_divide(problems_of: ProblemsOf, overrides: tuple[str, ...], engine: str) -> None:
    assert of("VRL204", problems_of(*overrides, engine=engine)) == []


def test_heads_over_sequence_ranks(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL204", problems_of(f"{SP}=8"))
    assert (found.severity, found.path, found.line) == ("error", SP, FIRST)
    assert "does not divide the model's 28 attention and 4 key-value heads" in found.message
    assert found.suggestion == "set it to 1, 2 or 4"


def test_heads_of_a_model_elsewhere(problems_of: ProblemsOf) -> None:
    elsewhere = "actor_rollout_ref.model.path=/models/own-7b"
    assert "needs the config.json of /models/own-7b" in unchecked("VRL204", problems_of(f"{SP}=8", elsewhere))[0]
    assert unchecked("VRL204", problems_of(elsewhere)) == []


@pytest.mark.parametrize("key", [SP, OLD_SP])
def test_sequence_ranks_need_packing(problems_of: ProblemsOf, key: str) -> None:
    (found,) = of("VRL205", problems_of(f"{key}=2", f"{PACKING}=False"))
    assert (found.severity, found.path, found.line) == ("error", PACKING, FIRST + 1)
    assert f"{key}=2 splits packed sequences" in found.message
    assert found.suggestion == f"set {PACKING}=True, or {key}=1"
    assert found.fix is not None
    assert (found.fix.key, found.fix.to) == (PACKING, True)
    assert [other.path for other in found.related] == [key]


def test_a_critic_packs_by_its_own_key(problems_of: ProblemsOf) -> None:
    overrides = ("critic.enable=True", "critic.fsdp.ulysses_sequence_parallel_size=2")
    (found,) = of("VRL205", problems_of(*overrides, "critic.model.use_remove_padding=False"))
    assert found.path == "critic.model.use_remove_padding"
    assert of("VRL205", problems_of(*overrides, f"{PACKING}=False")) == []


@pytest.mark.parametrize("overrides", [(f"{SP}=2",), (f"{PACKING}=False",), (f"{SP}=1", f"{PACKING}=False")])
def test_packing_that_fits(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL205", problems_of(*overrides)) == []


def test_versions_that_packed_on_demand(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL205", problems_of(f"{OLD_SP}=2", version="0.6.1"))  # use_remove_padding was off by default
    assert found.line == FIRST
    assert "(verl's default)" in found.message


def test_copies_that_leave_gpus(problems_of: ProblemsOf) -> None:
    key = "actor_rollout_ref.actor.fsdp_config.fsdp_size"
    (found,) = of("VRL204", problems_of(f"{key}=3"))
    assert (found.severity, found.path, found.line) == ("error", key, FIRST)
    assert "2 copies of 3 GPUs and leaves 2 of 8" in found.message
    assert found.suggestion == "set it to -1 for one copy of all, or to 1, 2 or 4"
    (found,) = of("VRL204", problems_of("critic.fsdp.fsdp_size=5", "critic.enable=True"))
    assert found.path == "critic.fsdp.fsdp_size"


@pytest.mark.parametrize("size", [-1, 1, 2, 4, 8, 16])
def test_copies_that_fill_the_gpus(problems_of: ProblemsOf, size: int) -> None:
    assert of("VRL204", problems_of(f"actor_rollout_ref.actor.fsdp_config.fsdp_size={size}")) == []


def test_copies_of_a_role_that_is_not_trained(problems_of: ProblemsOf) -> None:
    assert of("VRL204", problems_of("critic.fsdp.fsdp_size=5")) == []


def test_virtual_stages(problems_of: ProblemsOf) -> None:
    root = "actor_rollout_ref.actor.megatron"
    virtual, pipeline = f"{root}.virtual_pipeline_model_parallel_size", f"{root}.pipeline_model_parallel_size"
    (found,) = of("VRL204", problems_of(f"{virtual}=2", engine="megatron"))
    assert (found.severity, found.path, found.line) == ("error", virtual, FIRST)
    assert f"{pipeline}=1 (verl's default)" in found.message
    assert of("VRL204", problems_of(f"{virtual}=2", f"{pipeline}=2", engine="megatron")) == []
    assert of("VRL204", problems_of(f"{virtual}=null", engine="megatron")) == []
