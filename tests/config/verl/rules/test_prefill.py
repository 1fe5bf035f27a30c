from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

ROLLOUT = "actor_rollout_ref.rollout"
BATCHED, CONTEXT = f"{ROLLOUT}.max_num_batched_tokens", f"{ROLLOUT}.max_model_len"
UNCUT, UNCACHED = f"{ROLLOUT}.enable_chunked_prefill=False", f"{ROLLOUT}.enable_prefix_caching=False"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


@pytest.mark.parametrize("version", ["0.9.1", "main"])
def test_uncut_prompts_raise_the_batch(problems_of: ProblemsOf, version: str) -> None:
    overrides = (UNCUT, f"{CONTEXT}=32768", f"{BATCHED}=4096")
    (found,) = of("VRL212", problems_of(*overrides, version=version))
    assert (found.severity, found.path, found.line) == ("warning", BATCHED, FIRST + 2)
    assert f"{BATCHED}=4096 is raised to the context of 32768" in found.message
    assert f"{CONTEXT}=1024" in (found.suggestion or "")


def test_the_model_is_the_context(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL212", problems_of(UNCUT, f"{CONTEXT}=null"))
    assert "raised to the context of 32768" in found.message
    elsewhere = "actor_rollout_ref.model.path=/models/own-7b"
    assert len(unchecked("VRL212", problems_of(UNCUT, f"{CONTEXT}=null", elsewhere))) == 1


@pytest.mark.parametrize(
    "overrides",
    [(UNCUT,), (UNCUT, f"{BATCHED}=4096"), (f"{BATCHED}=1024",), (UNCUT, f"{ROLLOUT}.name=sglang", f"{BATCHED}=1024")],
)
def test_batches_that_hold_a_prompt(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL212", problems_of(*overrides)) == []


@pytest.mark.parametrize("switch", [UNCUT, f"{ROLLOUT}.enable_chunked_prefill=True"])
def test_older_rollouts_refuse_small_batches(problems_of: ProblemsOf, switch: str) -> None:
    overrides = (switch, f"{CONTEXT}=null", "data.max_response_length=16384")
    (found,) = of("VRL212", problems_of(*overrides, version="0.6.1"))
    assert (found.severity, found.path, found.line) == ("error", CONTEXT, FIRST + 1)
    assert f"{BATCHED}=8192 (verl's default) is less than the context of 16896 tokens" in found.message
    assert found.suggestion == f"set {BATCHED}=16896 or more"
    assert of("VRL212", problems_of(*overrides, f"{BATCHED}=16896", version="0.6.1")) == []
    assert of("VRL212", problems_of(*overrides, f"{ROLLOUT}.mode=async", version="0.6.1")) == []


@pytest.mark.parametrize("version", ["0.7.1", "0.8.0", "0.9.0"])
def test_switches_that_get_lost(problems_of: ProblemsOf, version: str) -> None:
    found = of("VRL213", problems_of(UNCUT, UNCACHED, version=version))
    assert [(problem.severity, problem.line) for problem in found] == [("warning", FIRST), ("warning", FIRST + 1)]
    assert f"verl {version} does not hand it on" in found[0].message


@pytest.mark.parametrize("version", ["0.6.1", "0.9.1", "main"])
def test_switches_that_arrive(problems_of: ProblemsOf, version: str) -> None:
    assert of("VRL213", problems_of(UNCUT, UNCACHED, version=version)) == []


def test_switches_that_are_on(problems_of: ProblemsOf) -> None:
    assert of("VRL213", problems_of(UNCUT.replace("False", "True"), version="0.9.0")) == []
    assert of("VRL213", problems_of(UNCUT, f"{ROLLOUT}.name=sglang", version="0.9.0")) == []
