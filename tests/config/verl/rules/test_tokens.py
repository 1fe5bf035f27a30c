from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ACTOR, ROLLOUT, REF = (f"actor_rollout_ref.{name}" for name in ("actor", "rollout", "ref"))
PROMPT, RESPONSE = "data.max_prompt_length", "data.max_response_length"
DYNAMIC, BUDGET = f"{ACTOR}.use_dynamic_bsz=True", f"{ACTOR}.ppo_max_token_len_per_gpu"
SP = f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size"
CONTEXT, PATH = f"{ROLLOUT}.max_model_len", "actor_rollout_ref.model.path"
KL = f"{ACTOR}.use_kl_loss=True"
LONG = f"{CONTEXT}=16384"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


def test_budgets_below_one_response(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL208", problems_of(DYNAMIC, f"{RESPONSE}=3584", f"{BUDGET}=1024"))
    assert (found.severity, found.path, found.line) == ("error", BUDGET, FIRST + 2)
    assert "holds 1024 tokens, less than the longest sequence of 4096 (prompt 512 + response 3584)" in found.message
    assert found.suggestion == f"set {BUDGET} to 4096 or more; 8192 is a good start"
    assert [other.path for other in found.related] == [RESPONSE]


@pytest.mark.parametrize(("version", "severity"), [("0.9.1", "warning"), ("0.7.1", "error")])
def test_budgets_below_prompt_and_response(problems_of: ProblemsOf, version: str, severity: str) -> None:
    (found,) = of("VRL208", problems_of(DYNAMIC, f"{RESPONSE}=3584", f"{BUDGET}=4000", version=version))
    assert found.severity == severity


def test_sequence_ranks_share_a_budget(problems_of: ProblemsOf) -> None:
    overrides = (DYNAMIC, f"{RESPONSE}=7680", LONG, f"{SP}=4")
    assert of("VRL208", problems_of(*overrides, f"{BUDGET}=2048")) == []
    (found,) = of("VRL208", problems_of(*overrides, f"{BUDGET}=1024"))
    assert "holds 1024 × 4 ranks = 4096 tokens" in found.message
    assert found.suggestion == f"set {BUDGET} to 2048 or more; 4096 is a good start"


def test_a_reference_without_sequence_ranks(problems_of: ProblemsOf) -> None:
    overrides = (DYNAMIC, f"{RESPONSE}=7680", LONG, f"{SP}=4", f"{BUDGET}=4096", KL)
    (found,) = of("VRL208", problems_of(*overrides))  # follows the actor's budget, not its ranks
    assert found.message.startswith("a micro-batch of the reference holds 4096 tokens")
    assert of("VRL208", problems_of(*overrides, "actor_rollout_ref.model.lora_rank=8")) == []


def test_each_budget_that_is_set(problems_of: ProblemsOf) -> None:
    keys = (f"{ROLLOUT}.log_prob_max_token_len_per_gpu", f"{REF}.log_prob_max_token_len_per_gpu")
    found = of("VRL208", problems_of(DYNAMIC, KL, *(f"{key}=512" for key in keys)))
    assert [problem.path for problem in found] == list(keys)
    assert "of the log-prob pass holds 512" in found[0].message


def test_a_critic_has_its_own_budget(problems_of: ProblemsOf) -> None:
    critic = ("critic.enable=True", "critic.model.path=Qwen/Qwen2.5-7B", "critic.ppo_max_token_len_per_gpu=256")
    (found,) = of("VRL208", problems_of(DYNAMIC, *critic))
    assert "of the critic holds 256" in found.message


@pytest.mark.parametrize("overrides", [(f"{BUDGET}=16",), (DYNAMIC, f"{BUDGET}=1024"), (DYNAMIC,)])
def test_budgets_that_do(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL208", problems_of(*overrides)) == []


def test_a_context_without_room_to_answer(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL211", problems_of(f"{CONTEXT}=512"))
    assert (found.severity, found.path, found.line) == ("error", CONTEXT, FIRST)
    assert "is 1024 tokens" in found.message
    assert "a prompt of 512 leaves no room to answer" in found.message
    assert found.suggestion == f"set {CONTEXT}=1024"


def test_a_context_that_cuts_responses(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL211", problems_of(f"{CONTEXT}=1000"))
    assert (found.severity, found.line) == ("warning", FIRST)
    assert "a prompt of 512 gets at most 488 tokens of response" in found.message
    (found,) = of("VRL211", problems_of(f"{CONTEXT}=2000", f"{RESPONSE}=2048"))
    assert found.severity == "error"
    assert "no response can reach max_response_length=2048" in found.message


def test_the_model_is_the_context(problems_of: ProblemsOf) -> None:
    overrides = (f"{CONTEXT}=null", f"{PROMPT}=8192", f"{RESPONSE}=32768")
    (found,) = of("VRL211", problems_of(*overrides))  # 32768 positions
    assert (found.severity, found.path, found.line) == ("error", RESPONSE, FIRST + 2)
    assert "is 40960 tokens, but the model has 32768 positions" in found.message
    assert found.suggestion == f"lower {RESPONSE} to 24576"
    assert of("VRL211", problems_of(*overrides, f"{PATH}=Qwen/Qwen3-8B")) == []
    longer = "+actor_rollout_ref.model.override_config.max_position_embeddings=65536"
    assert of("VRL211", problems_of(*overrides, longer)) == []


def test_copies_may_have_been_given_positions(problems_of: ProblemsOf) -> None:
    overrides = (f"{PATH}=/models/Qwen2.5-Math-7B", f"{CONTEXT}=20000", f"{RESPONSE}=8192")
    (found,) = of("VRL211", problems_of(*overrides))
    assert found.severity == "warning"
    (found,) = of("VRL211", problems_of(f"{PATH}=Qwen/Qwen2.5-Math-7B", *overrides[1:]))
    assert found.severity == "error"


def test_a_context_beyond_the_model(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL211", problems_of(f"{CONTEXT}=40000"))
    assert (found.severity, found.path, found.line) == ("error", CONTEXT, FIRST)
    assert f"{CONTEXT}=40000 is more than the model's 32768 positions" in found.message
    assert found.suggestion == "set it to 32768 or less"
    found = of("VRL211", problems_of(f"{CONTEXT}=40000", f"{RESPONSE}=39000"))[0]
    assert "to 32768 tokens together" in (found.suggestion or "")


@pytest.mark.parametrize("overrides", [(f"{CONTEXT}=32768",), (f"{CONTEXT}=1024",), (f"{CONTEXT}=null",)])
def test_contexts_that_do(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL211", problems_of(*overrides)) == []


def test_positions_of_a_model_elsewhere(problems_of: ProblemsOf) -> None:
    elsewhere = f"{PATH}=/models/own-7b"
    assert "config.json of /models/own-7b" in unchecked("VRL211", problems_of(elsewhere, f"{CONTEXT}=8192"))[0]
    assert not any("config.json" in text for text in unchecked("VRL211", problems_of(elsewhere, f"{CONTEXT}=2048")))


def test_older_rollouts_assert_it(problems_of: ProblemsOf) -> None:
    overrides = (f"{PROMPT}=8192", f"{RESPONSE}=32768")
    (found,) = of("VRL211", problems_of(*overrides, version="0.6.1"))
    assert (found.severity, found.line) == ("error", FIRST + 1)
    assert "40960 tokens, more than the model's 32768 positions" in found.message
    assert of("VRL211", problems_of(*overrides, f"{ROLLOUT}.mode=async", version="0.6.1")) == []
    assert of("VRL211", problems_of(f"{RESPONSE}=30000", version="0.6.1")) == []


def test_a_stretched_model_says_its_positions_in_the_launch(problems_of: ProblemsOf) -> None:
    context = "actor_rollout_ref.rollout.max_model_len"
    positions = "actor_rollout_ref.model.override_config.max_position_embeddings"
    launch = ("data.max_prompt_length=20000", "data.max_response_length=20000", f"{context}=40000")
    found = [problem for problem in of("VRL211", problems_of(*launch)) if problem.path == context]
    assert [f"with YaRN (rope_scaling), set ++{positions}=40000" in (p.suggestion or "") for p in found] == [True]
    assert of("VRL211", problems_of(*launch, f"++{positions}=40000")) == []
