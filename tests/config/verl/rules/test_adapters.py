from __future__ import annotations

from collections.abc import Callable

import pytest

from verlcli.config.problems import NOT_CHECKED, Problem

ProblemsOf = Callable[..., list[Problem]]
FIRST = 10  # line of the first override of a test

MODEL, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.rollout"
RANK, MEGATRON_RANK = f"{MODEL}.lora_rank", f"{MODEL}.lora.rank"
FORMAT, SUMMON, MERGE = f"{ROLLOUT}.load_format", f"{ROLLOUT}.layered_summon=True", f"{MODEL}.lora.merge=True"
RATE = "actor_rollout_ref.actor.optim.lr"
FAST = f"{RATE}=1e-5"


def of(code: str, problems: list[Problem]) -> list[Problem]:
    """What a rule says; `not checked` is looked for by tests of its own."""
    return [found for found in problems if found.code == code and not found.message.startswith(NOT_CHECKED)]


def unchecked(code: str, problems: list[Problem]) -> list[str]:
    return [found.message for found in problems if code in found.message and found.unchecked]


def test_adapters_without_a_base(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL215", problems_of(f"{RANK}=32", SUMMON))
    assert (found.severity, found.path, found.line) == ("error", SUMMON[:-5], FIRST + 1)
    assert f"{FORMAT}='dummy' (verl's default)" in found.message
    assert found.suggestion == f"set {FORMAT}=safetensors"
    assert found.fix is not None
    assert (found.fix.key, found.fix.to) == (FORMAT, "safetensors")


def test_a_base_from_the_trainer(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL215", problems_of(f"{RANK}=32"))
    assert (found.severity, found.line) == ("note", FIRST)
    assert "every GPU gathers the whole base model" in found.message
    assert SUMMON in (found.suggestion or "")
    (found,) = of("VRL215", problems_of(f"{RANK}=32", "trainer.n_gpus_per_node=1"))
    assert SUMMON not in (found.suggestion or "")


@pytest.mark.parametrize(
    "overrides",
    [
        (f"{RANK}=32", SUMMON, f"{FORMAT}=safetensors"),
        (SUMMON,),
        (f"{RANK}=32", SUMMON, MERGE),
        (f"{RANK}=32", "actor_rollout_ref.actor.strategy=fsdp2"),
    ],
)
def test_bases_that_are_there(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL215", problems_of(*overrides)) == []


@pytest.mark.parametrize(("engine", "dead", "read"), [("dp", MEGATRON_RANK, RANK), ("megatron", RANK, MEGATRON_RANK)])
def test_ranks_of_the_other_engine(problems_of: ProblemsOf, engine: str, dead: str, read: str) -> None:
    (found,) = of("VRL216", problems_of(f"{dead}=32", engine=engine))
    assert (found.severity, found.path, found.line) == ("error", dead, FIRST)
    assert "all weights are trained, and the reference policy is the actor itself" in found.message
    assert found.suggestion == f"write {read}=32"
    assert found.fix is not None
    assert (found.fix.action, found.fix.key, found.fix.to) == ("rename", dead, read)
    assert of("VRL216", problems_of(f"{read}=32", engine=engine)) == []
    assert of("VRL216", problems_of(f"{read}=32", f"{dead}=32", engine=engine)) == []
    assert of("VRL216", problems_of(f"{dead}=0", engine=engine)) == []


def test_versions_whose_megatron_has_no_lora(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL216", problems_of(f"{RANK}=32", engine="megatron", version="0.5.0"))
    assert found.suggestion == "remove it; verl 0.5.0 has no LoRA here"
    assert found.fix is None


def test_ranks_beyond_vllm(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL217", problems_of(f"{RANK}=1024", FAST))
    assert (found.severity, found.path, found.line) == ("error", RANK, FIRST)
    assert f"{RANK}=1024 is more than the 512 that vLLM serves" in found.message
    assert found.suggestion == f"set it to 512 or less, or {MERGE}"


@pytest.mark.parametrize(
    "overrides",
    [
        (f"{RANK}=512", FAST),
        (f"{RANK}=1024", FAST, MERGE),
        (f"{RANK}=1024", FAST, f"{ROLLOUT}.name=sglang"),
        (f"{RANK}=20", FAST),
    ],
)
def test_ranks_that_are_served(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL217", problems_of(*overrides)) == []


def test_ranks_that_are_not_rounded(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL217", problems_of(f"{RANK}=20", FAST, version="0.5.0"))
    assert found.message == "vLLM has no LoRA rank 20, and verl 0.5.0 does not round it up"
    assert found.suggestion == "set it to 16 or 32"
    assert of("VRL217", problems_of(f"{RANK}=32", FAST, version="0.5.0")) == []


def test_adapters_on_a_vision_tower(problems_of: ProblemsOf) -> None:
    overrides = (f"{MODEL}.path=Qwen/Qwen2.5-VL-7B-Instruct", f"{RANK}=32", FAST)
    (found,) = of("VRL217", problems_of(*overrides))
    assert (found.severity, found.line) == ("warning", FIRST + 1)
    assert "adapters on the vision tower" in found.message
    assert found.suggestion == f"add {MODEL}.exclude_modules='.*visual.*'"
    assert of("VRL217", problems_of(*overrides, f"{MODEL}.exclude_modules='.*visual.*'")) == []
    assert of("VRL217", problems_of(*overrides, f"{MODEL}.target_modules=[q_proj]")) == []
    elsewhere = f"{MODEL}.path=/models/own-vl"
    assert len(unchecked("VRL217", problems_of(elsewhere, f"{RANK}=32", FAST))) == 1


def test_rates_of_full_fine_tuning(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL217", problems_of(f"{RANK}=32"))
    assert (found.severity, found.line) == ("note", FIRST)
    assert f"{RATE}=1e-06 (verl's default)" in found.message
    assert of("VRL217", problems_of(f"{RANK}=32", f"{RATE}=3e-6")) == []
    assert of("VRL217", problems_of(f"{RATE}=1e-6")) == []


ADAPTER = f"{MODEL}.lora_adapter_path"


def test_the_path_of_an_adapter_without_a_rank(problems_of: ProblemsOf) -> None:
    (found,) = of("VRL216", problems_of(f"{ADAPTER}=/models/a"))
    assert (found.severity, found.path, found.line) == ("error", ADAPTER, FIRST)
    assert f"not loaded while {RANK}=0 (verl's default)" in found.message
    assert found.suggestion == f"set {RANK} to the rank in its adapter_config.json"


@pytest.mark.parametrize("overrides", [(f"{ADAPTER}=/a", f"{RANK}=16"), (f"{ADAPTER}=null",), ()])
def test_adapters_that_are_loaded(problems_of: ProblemsOf, overrides: tuple[str, ...]) -> None:
    assert of("VRL216", problems_of(*overrides)) == []


def test_older_trainers_load_an_adapter_by_its_path(problems_of: ProblemsOf) -> None:
    found = problems_of(f"{ADAPTER}=/models/a", SUMMON, version="0.7.1")
    assert of("VRL216", found) == []
    assert [problem.severity for problem in of("VRL215", found)] == ["error"]


def test_sglang_learned_to_serve_adapters(problems_of: ProblemsOf) -> None:
    name = f"{ROLLOUT}.name"
    (found,) = of("VRL217", problems_of(f"{name}=sglang", f"{RANK}=32", FAST, version="0.7.1"))
    assert (found.severity, found.path, found.line) == ("warning", name, FIRST)
    assert found.suggestion == f"set {name}=vllm"
    assert of("VRL217", problems_of(f"{name}=sglang", f"{RANK}=32", FAST, MERGE, version="0.7.1")) == []
    assert of("VRL217", problems_of(f"{name}=sglang", f"{RANK}=32", FAST)) == []
