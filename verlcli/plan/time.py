"""How long a step takes on one GPU: bounds of bandwidth, arithmetic and launches, with measured efficiencies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from verlcli.config.types import Config
from verlcli.facts import GpuModel, ModelShape
from verlcli.plan.memory.models import recompute_of
from verlcli.plan.types import Bound, PhaseTime, Plan, StepTime

BUS = 50e9  # bytes/s from host memory: PCIe 5


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What a machine reaches of its datasheet. The defaults are of one H200 with torch 2.11 (benchmarks/RESULTS.md).

    Attributes:
        bandwidth: of the memory's, for weights, cache and optimizer states.
        arithmetic: of the dense peak, by a very wide model's forward and backward passes.
        half_width: hidden size at which half of that is reached: narrow layers leave matrix units idle.
        attention: of the dense peak, by causal attention over packed sequences (torch's own kernel).
        layer_seconds: the least that one layer of a decode step takes, however little it has to do.
    """

    bandwidth: float = 0.89
    arithmetic: float = 0.62
    half_width: int = 350
    attention: float = 0.28
    layer_seconds: float = 50e-6

    def of_peak(self, hidden_size: int) -> float:
        """Share of the dense peak that passes of a model of this width reach."""
        return self.arithmetic * hidden_size / (hidden_size + self.half_width)


def plan_time(
    config: Config,
    plan: Plan,
    shapes: Mapping[str, ModelShape],
    gpu: GpuModel,
    *,
    rows: int,
    efficiency: Efficiency = Efficiency(),
) -> StepTime | None:
    """Seconds of each phase on one GPU of the local backend; None where a fact is missing or a model is not dense.

    Args:
        shapes: of each role that computes with a model.
        rows: sequences that generation decodes at once.
    """
    machine = _Machine(config, plan, gpu, efficiency)
    modelled = [role for role in ("actor", "reference", "reward_model", "critic") if plan.role(role) is not None]
    if machine.peak == 0 or not shapes.keys() >= set(modelled):
        return None
    if any(shape.params is None or shape.num_experts for shape in shapes.values()):
        return None
    actor = shapes["actor"]
    phases = [*machine.rollout(actor, rows)]
    if plan.batch.updates > 1 or (config.algorithm.kl_in == "reward" and config.algorithm.kl_coef):
        phases.append(machine.forward("old log-probs", actor))
    if "reference" in modelled:
        phases.append(machine.forward("reference", shapes["reference"]))
    if "reward_model" in modelled:
        phases.append(machine.forward("reward model", shapes["reward_model"], head=False))
    if "critic" in modelled:
        critic = shapes["critic"]
        phases += [machine.forward("values", critic, head=False), *machine.update("critic update", critic, head=False)]
    phases += machine.update("update", actor)
    return StepTime(tuple(phases), plan.batch.sequences_per_rank * config.data.max_response_length)


class _Machine:
    def __init__(self, config: Config, plan: Plan, gpu: GpuModel, efficiency: Efficiency) -> None:
        self._config, self._plan, self._efficiency = config, plan, efficiency
        actor = plan.role("actor")
        self._number = 4 if actor is None or actor.dtype == "fp32" else 2  # bytes
        self.peak = 1e12 * gpu.tflops.get("fp32" if actor is None else actor.dtype, 0.0)
        self._bandwidth = 1e9 * gpu.memory_gbps * efficiency.bandwidth
        data, batch = config.data, plan.batch
        self._prompt, self._response = data.max_prompt_length, data.max_response_length
        self._prompts = math.ceil(batch.sequences_per_rank / batch.samples_per_prompt)
        self._sequences = batch.sequences_per_rank

    def _pass_seconds(self, shape: ModelShape, sequences: int, length: int, predicted: int) -> float:
        """Of one forward pass over `sequences` of `length` tokens, the head on `predicted` of each."""
        blocks, head = _weights(shape)
        linear = 2.0 * sequences * (blocks * length + head * predicted)
        # Two products of s^2 / 2 pairs (causal), each 2 d operations a head.
        attention = 2.0 * shape.attention_layers * shape.num_attention_heads * shape.head_dim * sequences * length**2
        share = self._efficiency.of_peak(shape.hidden_size)
        return (linear / share + attention / self._efficiency.attention) / self.peak

    def rollout(self, shape: ModelShape, rows: int) -> list[PhaseTime]:
        """Prompts once for all their samples, then a step a token, in as many waves as rows need."""
        rows = max(1, min(rows, self._sequences))
        waves = math.ceil(self._sequences / rows)
        blocks, head = _weights(shape)
        weights = self._number * (blocks + head) / self._bandwidth
        arithmetic = 2.0 * rows * (blocks + head) / (self.peak * self._efficiency.of_peak(shape.hidden_size))
        context = self._prompt + self._response / 2
        kept = self._config.rollout.cpu_offload_ratio if self._config.rollout.cpu_offload else 0.0
        read = rows * context * self._number * shape.kv_numbers_per_token
        cache = read * ((1 - kept) / self._bandwidth + kept / BUS)
        logits = 3 * 4.0 * rows * shape.vocab_size / self._bandwidth  # written, read for the draw and its log-prob
        launches = shape.num_hidden_layers * self._efficiency.layer_seconds
        parts: dict[Bound, float] = {
            "bandwidth": max(weights - arithmetic, 0.0) + cache + logits,
            "arithmetic": arithmetic,
            "launches": launches,
        }
        decode = self._response * waves * sum(parts.values())
        prefill = self._pass_seconds(shape, self._prompts, self._prompt, 1)
        return [
            PhaseTime("prefill", prefill, "arithmetic"),
            PhaseTime("decode", decode, max(parts, key=lambda name: parts[name])),
        ]

    def forward(self, name: str, shape: ModelShape, *, head: bool = True) -> PhaseTime:
        """Log-probs of all responses, by the output head, or values and scores without it."""
        length, predicted = self._prompt + self._response, self._response if head else 0
        return PhaseTime(name, self._pass_seconds(shape, self._sequences, length, predicted), "arithmetic")

    def update(self, name: str, shape: ModelShape, *, head: bool = True) -> list[PhaseTime]:
        """Forward and backward passes over all sequences, recomputation, and the optimizer's steps."""
        forward = self.forward(name, shape, head=head).seconds
        passes = 3 + {"none": 0.0, "selective": 0.1, "full": 1.0, "offload": 1.0}[recompute_of(self._config)]
        lora = self._config.model.lora_rank > 0
        if lora:  # no gradients of the frozen weights
            passes -= 1
        phases = [PhaseTime(name, self._plan.batch.ppo_epochs * passes * forward, "arithmetic")]
        if not lora and shape.params is not None:
            # Masters and two moments read and written, gradients read twice, weights written: fp32 but for the last.
            traffic = shape.params * (2 * 12 + 2 * 4 + self._number)
            seconds = self._plan.batch.updates * traffic / self._bandwidth
            phases.append(PhaseTime(name.replace("update", "optimizer"), seconds, "bandwidth"))
        return phases


def _weights(shape: ModelShape) -> tuple[int, int]:
    """(of the blocks' matrices, of the output head)."""
    assert shape.params is not None
    head = shape.vocab_size * shape.hidden_size
    return shape.params - head * (1 if shape.tie_word_embeddings else 2), head
