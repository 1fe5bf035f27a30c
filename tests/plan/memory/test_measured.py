"""Peaks of one update on an H200, as `benchmarks/update.py` measured them, against the model.

`tokens` and `predicted` are those of the largest micro batch that the trainer's packing makes of the case; `kept_gib`
is the room for probabilities that the trainer had then (3.5 GiB in the first runs, a 64th of the card since). The fused
row of case b is of a run whose blocks were compiled around our kernels.
"""

from __future__ import annotations

import csv
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from verlcli.config import Loaded
from verlcli.facts import find_gpu, shape_from_config
from verlcli.plan import Gpu, Machine, Plan
from verlcli.plan.memory import head
from verlcli.plan.memory.batch import MicroBatch
from verlcli.plan.memory.models import models_on
from verlcli.plan.memory.passes import Passes

GIB = 2**30
ROWS = list(csv.DictReader(Path(__file__).with_name("measured.csv").open()))
UPDATE = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "update.py"), run_name="update")
SHAPES: dict[str, dict[str, Any]] = {**UPDATE["SHAPES"], "qwen3": UPDATE["QWEN3"]}
TOLERANCE = 0.02
H200 = Machine((Gpu("NVIDIA H200", 143771 * 2**20, (9, 0)),), cpu_cores=16, cpu_bf16=False, torch_cuda=True)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['case']}-{row['kernels']}-{row['peak_gib']}" for row in ROWS])
def test_peak_is_as_measured(
    load: Callable[..., Loaded], plan_of: Callable[..., Plan], row: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ratio = predicted_gib(load, plan_of, row, monkeypatch) / float(row["peak_gib"])
    assert ratio == pytest.approx(1, abs=TOLERANCE)


def predicted_gib(
    load: Callable[..., Loaded], plan_of: Callable[..., Plan], row: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> float:
    capacity = int(find_gpu("H200").memory_gib * GIB)
    monkeypatch.setattr(head, "KEPT_SHARE", float(row["kept_gib"]) * GIB / capacity)
    overrides = ("algorithm.kl_coef=0", f"training.recompute={row['recompute']}")
    config, plan = load(*overrides).config, plan_of(H200, *overrides)
    shape = shape_from_config(SHAPES[row["model"]], "benchmarks")
    kernels: Any = row["kernels"]
    models = models_on("cuda:0", config, plan, {"actor": shape}, kernels)
    assert models is not None
    passes = Passes("actor", models["actor"], config, plan.batch, "cuda:0", capacity)
    passes = replace(passes, micro=MicroBatch(int(row["tokens"]), int(row["predicted"]), 1, True, "as packed"))
    held = passes.model.states.held(updated=True)
    moments = (passes.forward(), passes.backward(), [passes.model.states.gradient_part()])
    return (sum(part.bytes for part in held) + max(sum(part.bytes for part in parts) for parts in moments)) / GIB


def test_the_tokens_are_those_that_the_trainer_packs() -> None:
    from verlcli.engine.packing import Cost, by_tokens

    for row in ROWS:
        case = UPDATE["CASES"][row["case"]]
        budget = 32768 if "--tokens 32768" in row["command"] else case.tokens
        shape = shape_from_config(case.shape, "benchmarks")
        micro_batches = by_tokens(UPDATE["make_batch"](case, "cpu"), budget, Cost.of_model(shape))
        largest = max(micro_batches, key=lambda micro: int(micro.attention_mask.sum()))
        assert int(row["tokens"]) == int(largest.attention_mask.sum())
        assert int(row["predicted"]) == int(largest.response_mask.sum())
