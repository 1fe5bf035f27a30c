"""The time model: against what one H200 took (benchmarks/RESULTS.md, 2026-12-01), and which way each key moves it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from verlcli.config import Loaded
from verlcli.facts import find_gpu, model_shape, parse_cluster
from verlcli.plan import machine_of, make_plan
from verlcli.plan.time import plan_time
from verlcli.plan.types import StepTime

Load = Callable[..., Loaded]


@pytest.fixture
def time_of(load: Load) -> Callable[..., StepTime]:
    def time(
        model: str,
        prompts: int,
        n: int,
        prompt: int,
        response: int,
        *overrides: str,
        rows: int = 512,
        gpu: str = "H200",
    ) -> StepTime:
        loaded = load(
            f"model.path={model}",
            f"data.train_batch_size={prompts}",
            f"rollout.n={n}",
            f"data.max_prompt_length={prompt}",
            f"data.max_response_length={response}",
            "data.source=arithmetic",
            "algorithm.kl_coef=0",
            *overrides,
        )
        config = loaded.require()
        machine = machine_of(parse_cluster(f"1x{gpu}"))
        plan = make_plan(config, name="x", machine=machine, argv=["x"], origins=loaded.origins)
        assert plan.time is not None, plan.missing
        return plan.time

    return time


def seconds(time: StepTime, *names: str) -> float:
    return sum(phase.seconds for phase in time.phases if phase.name in names)


@pytest.mark.parametrize(
    ("case", "phases", "measured"),
    [
        # grpo_step.py: step without its reward
        (("Qwen/Qwen2.5-0.5B", 64, 8, 24, 256), ("prefill", "decode", "update", "optimizer"), 1.826),
        (("Qwen/Qwen2.5-0.5B", 64, 8, 24, 256), ("prefill", "decode"), 0.652),
        # rollout of 512 x (64 + 256), of 64 x (512 + 512)
        (("Qwen/Qwen2.5-0.5B", 256, 2, 64, 256), ("prefill", "decode"), 512 * 256 / 170_000),
        (("meta-llama/Llama-2-7b-hf", 32, 2, 512, 512, "model.lora_rank=8"), ("prefill", "decode"), 64 * 512 / 5_163),
        # update.py: cases a, b (of other lengths, so in proportion to its tokens) and c
        (("Qwen/Qwen2.5-0.5B", 256, 2, 64, 256), ("update", "optimizer"), 1.153),
        (("Qwen/Qwen2.5-1.5B", 64, 2, 64, 475), ("update", "optimizer"), 1.277),
        (("Qwen/Qwen3-0.6B", 1, 2, 1, 16383, "training.recompute=full"), ("update", "optimizer"), 1.226),
    ],
)
def test_predicted_seconds_are_within_15_percent_of_those_measured(
    time_of: Callable[..., StepTime], case: tuple[object, ...], phases: tuple[str, ...], measured: float
) -> None:
    assert seconds(time_of(*case), *phases) == pytest.approx(measured, rel=0.15)


def test_each_key_moves_the_time_the_right_way(time_of: Callable[..., StepTime]) -> None:
    base = ("Qwen/Qwen2.5-0.5B", 64, 8, 256, 512)
    plain = time_of(*base)
    assert plain.tokens == 64 * 8 * 512
    assert plain.tokens_per_second == pytest.approx(plain.tokens / sum(p.seconds for p in plain.phases))
    assert seconds(time_of(*base, "training.recompute=full"), "update") > seconds(plain, "update")
    assert seconds(time_of(*base, "model.lora_rank=16"), "update") < seconds(plain, "update")
    assert seconds(time_of(*base, "model.lora_rank=16"), "optimizer") == 0
    assert seconds(time_of(*base, "training.ppo_mini_batch_size=32"), "old log-probs") > 0
    assert seconds(time_of(*base, "rollout.batch_size=128"), "decode") > seconds(plain, "decode")
    host = time_of(*base, "rollout.cpu_offload=true", "rollout.cpu_offload_ratio=1")
    assert seconds(host, "decode") > seconds(plain, "decode")
    assert seconds(time_of(*base, gpu="A100-80G"), "update") > 2 * seconds(plain, "update")
    with_reference = time_of(*base, "algorithm.kl_coef=0.01")
    assert seconds(with_reference, "reference") == pytest.approx(seconds(plain, "update") / 3, rel=0.01)


def test_what_is_not_known_is_not_guessed(load: Load) -> None:
    loaded = load("model.path=Qwen/Qwen2.5-0.5B", "data.source=arithmetic")
    config = loaded.require()
    machine = machine_of(parse_cluster("1xV100-32G"))
    plan = make_plan(config, name="x", machine=machine, argv=["x"], origins=loaded.origins)
    shape = model_shape("Qwen/Qwen2.5-0.5B")
    assert shape is not None
    v100 = find_gpu("V100-32G")
    assert plan_time(config, plan, {}, v100, rows=8) is None
    assert plan_time(config, plan, {"actor": replace(shape, model_type="new")}, v100, rows=8) is None
    assert plan_time(config, plan, {"actor": replace(shape, num_experts=8)}, v100, rows=8) is None
