"""From a plan and the models' shapes to the memory of each phase of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from verlcli.config.types import Config
from verlcli.facts import GpuModel, ModelShape
from verlcli.plan.memory.batch import pass_bytes, step_bytes
from verlcli.plan.memory.models import Model, adapted_layers, kernels_of, models_on, recompute_of, shares_actor
from verlcli.plan.memory.passes import Passes
from verlcli.plan.memory.rollout import Generation
from verlcli.plan.memory.types import DeviceMemory, Part, Phase, PhaseMemory
from verlcli.plan.types import Plan

GIB = 2**30
# Context and libraries of a CUDA process; Python with torch and transformers on a CPU.
GPU_CONTEXT = (GIB // 2, 3 * GIB // 4)
CPU_PROCESS = (GIB // 3, 2 * GIB // 3)
# What torch's allocator keeps beyond what is allocated, as a share of it: published runs, not measured here.
UNUSED = (0.02, 0.10)
REWARD_TOKENS = 8192  # of the reward model's forward pass


def plan_memory(
    config: Config, plan: Plan, shapes: Mapping[str, ModelShape], *, gpu: GpuModel | None
) -> DeviceMemory | None:
    """Memory of the actor's device over a step of the local backend; roles on other devices are left out.

    Sequences are taken to be as long as the config allows.

    Args:
        shapes: by role: actor, and critic, reference and reward_model where the plan has them as models of their own.
        gpu: the actor's; None: not known, or a CPU.

    Returns:
        None: a model is loaded whose shape is not known, or whose layers are not modelled.

    Raises:
        ConfigError: LoRA's targets do not exist in the model.
    """
    actor, shape = plan.role("actor"), shapes.get("actor")
    if actor is None or shape is None:
        return None
    device, memory = actor.devices[0], None
    capacity = int(gpu.memory_gib * GIB) if gpu and device != "cpu" else None
    for kernels in kernels_of(config, shape, device):
        models = models_on(device, config, plan, shapes, kernels)
        if models is None:
            return None
        memory = _Step(config, plan, models, device, capacity).memory()
        if memory.fits is not False:
            break
    return memory


@dataclass(frozen=True, slots=True)
class _Step:
    config: Config
    plan: Plan
    models: dict[str, Model]
    device: str
    capacity: int | None

    def memory(self) -> DeviceMemory:
        advice = _advice(self.config)
        phases = tuple(_phase(each.phase, each.parts, advice) for each in self._phases())
        most = max(phase.bytes for phase in phases)
        generation, engine, gpu = self._generation(), self._engine(), self.device != "cpu"
        # The pool of CUDA graphs stays with the allocator when a step is over.
        graphs = generation.graph_bytes() if engine == "graph" and gpu else 0
        least, greatest = CPU_PROCESS if self.device == "cpu" else GPU_CONTEXT
        outside = (least + graphs + int(UNUSED[0] * most), greatest + graphs + int(UNUSED[1] * most))
        memory = DeviceMemory(self.device, phases, outside, self.capacity, generation.rows(engine, gpu=gpu))
        return memory if memory.fits is False or not gpu else replace(memory, refused=generation.refusal(engine))

    def _phases(self) -> Iterable[PhaseMemory]:
        held = self._held(updated=True)
        yield _phase("load", self._held(updated=False))
        yield _phase("rollout", [*held, *self._generation().parts(self._engine(), gpu=self.device != "cpu")])
        trained = [self._passes(name) for name in ("actor", "critic") if name in self.models]
        batch = [*held, self._batch(self.plan.batch.sequences_per_rank)]
        if scoring := list(self._scoring()):
            yield _phase("log-probs", [*batch, *_largest(scoring)])
        if "critic" in self.models:
            yield _phase("values", [*batch, *self._passes("critic").inference()])
        update = [*held, self._batch(self.plan.batch.mini_batch_sequences_per_rank)]
        yield _phase("forward", [*update, *_largest(each.forward() for each in trained)])
        yield _phase("backward", [*update, *_largest(each.backward() for each in trained)])
        yield _phase("optimizer", [*update, *_largest([each.model.states.gradient_part()] for each in trained)])
        yield _phase("save", held)

    def _held(self, *, updated: bool) -> list[Part]:
        return [part for model in self.models.values() for part in model.states.held(updated=updated)]

    def _passes(self, role: str) -> Passes:
        return Passes(role, self.models[role], self.config, self.plan.batch, self.device, self.capacity)

    def _scoring(self) -> Iterable[list[Part]]:
        """The passes that give log-probs and scores, one after another."""
        algorithm = self.config.algorithm
        in_reward = algorithm.kl_in == "reward" and algorithm.kl_coef != 0
        reference = self.plan.role("reference")
        if self.plan.batch.updates > 1 or in_reward or (reference is not None and shares_actor(self.config)):
            yield self._passes("actor").inference()
        if "reference" in self.models:
            yield self._passes("reference").inference()
        if "reward_model" in self.models:
            yield self._passes("reward_model").inference(budget=REWARD_TOKENS)

    def _engine(self) -> str:
        role = self.plan.role("rollout")
        assert role is not None
        return role.engine

    def _generation(self) -> Generation:
        model, held = self.models["actor"], sum(part.bytes for part in self._held(updated=True))
        return Generation(
            self.config,
            self.plan.batch,
            model.run,
            # The cache takes what is left; here, what is left where the device shows the most beside it.
            free=None
            if self.capacity is None
            else max(0, int((self.capacity - GPU_CONTEXT[1]) / (1 + UNUSED[1])) - held),
            capacity=self.capacity,
            adapted=adapted_layers(model.shape, self.config) or frozenset(),
        )

    def _batch(self, sequences: int) -> Part:
        """The step's tensors and the micro batches of a pass over so many sequences."""
        algorithm = self.config.algorithm
        numbers = 3 + (self.plan.role("reference") is not None) + 2 * (algorithm.name == "ppo")
        size = step_bytes(self.config, self.plan.batch, per_token=numbers)
        size += pass_bytes(self.config, sequences, per_token=numbers)
        equation = f"ids, masks and {numbers} numbers a token, of the step and of a pass"
        return Part("actor", "batch", size, equation, ("data.train_batch_size", "rollout.n"))


def _phase(name: Phase, parts: Sequence[Part], advice: Mapping[str, str | None] | None = None) -> PhaseMemory:
    """`advice`: what to say instead of a key that lowers nothing, as the others are set; None: nothing."""
    said = advice or {}
    advised = ((part, (said.get(key, key) for key in part.shrunk_by)) for part in parts)
    found = (replace(part, shrunk_by=tuple(key for key in keys if key)) for part, keys in advised)
    return PhaseMemory(name, tuple(part for part in found if part.bytes))


def _advice(config: Config) -> dict[str, str | None]:
    training, said = config.training, dict[str, str | None]()
    if recompute_of(config) in ("full", "offload"):
        said["training.recompute"] = None
    if config.model.lora_rank:
        said["model.lora_rank"] = None
    if config.actor.optim.master_dtype == "bf16":
        said["actor.optim.master_dtype"] = None
    if training.ppo_micro_batch_size_per_gpu is not None and not training.use_dynamic_bsz:
        said["training.max_token_len_per_gpu"] = "training.ppo_micro_batch_size_per_gpu"
    return said


def _largest(choices: Iterable[list[Part]]) -> list[Part]:
    """The parts of the pass that takes most."""
    return max(choices, key=lambda parts: sum(part.bytes for part in parts))
