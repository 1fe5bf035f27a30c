"""The models of a run that stand on the actor's device, each with how its layers run there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from verlcli.config.types import Config
from verlcli.facts import ModelShape
from verlcli.facts.parameters import parameter_counts
from verlcli.plan.memory.activations import FUSED_FAMILIES, Kernels, LayerRun, Recompute
from verlcli.plan.memory.states import BYTES, States, model_states
from verlcli.plan.types import Plan, RolePlan

TRAINED = ("actor", "critic")
# Their attention does what packed sequences do not get (caps, sinks), or is another: not modelled here.
_OTHER_ATTENTION = frozenset({"gemma2", "gpt_oss", "phimoe"})


@dataclass(frozen=True, slots=True)
class Model:
    """One role's model."""

    shape: ModelShape
    states: States
    run: LayerRun


def models_on(
    device: str, config: Config, plan: Plan, shapes: Mapping[str, ModelShape], kernels: Kernels
) -> dict[str, Model] | None:
    """The models that are loaded to `device`, by role; None where the shape of one is not known or not modelled."""
    found: dict[str, Model] = {}
    for name in ("actor", "critic", "reference", "reward_model"):
        role = plan.role(name)
        if role is None or role.devices[0] != device or (name == "reference" and shares_actor(config)):
            continue
        shape = shapes.get(name)
        if shape is None or not _is_modelled(shape):
            return None
        states = model_states(name, shape, config, role.dtype, trained=name in TRAINED)
        if states is None:
            return None
        found[name] = Model(shape, states, _layer_run(name, role, shape, config, kernels, device))
    return found


def shares_actor(config: Config) -> bool:
    """Whether the reference is the actor with its adapter off."""
    return config.model.lora_rank > 0 and config.reference.path is None


def adapted_layers(shape: ModelShape, config: Config) -> frozenset[str] | None:
    """Names of the linear layers that LoRA adapts; None: it is off."""
    if not config.model.lora_rank:
        return None
    counts, targets = parameter_counts(shape), config.model.lora_target_modules
    names = frozenset(linear.name for linear in counts.linears if linear.module) if counts else frozenset[str]()
    if isinstance(targets, str) and targets.lower() == "all-linear":
        return names
    return names & ({targets} if isinstance(targets, str) else set(targets))


def kernels_of(config: Config, shape: ModelShape, device: str) -> tuple[Kernels, ...]:
    """How layers run, in the order in which the trainer tries: what does not fit compiled goes on with our kernels."""
    covered = device != "cpu" and shape.model_type in FUSED_FAMILIES
    if config.training.compile is True:
        return ("compiled",)
    if config.training.compile == "auto" and device != "cpu":
        return ("compiled", "fused") if covered else ("compiled",)
    return ("fused",) if covered else ("eager",)


def recompute_of(config: Config) -> Recompute:
    """`training.recompute`, which the older switches stand in for where it is not set."""
    if config.training.recompute is not None:
        return config.training.recompute
    return "full" if config.model.enable_gradient_checkpointing or config.model.use_recompute else "none"


def _is_modelled(shape: ModelShape) -> bool:
    usual = shape.latent is None and shape.attention_layers == shape.num_hidden_layers and shape.quantized is None
    return usual and shape.model_type not in _OTHER_ATTENTION


def _layer_run(name: str, role: RolePlan, shape: ModelShape, config: Config, kernels: Kernels, device: str) -> LayerRun:
    trained = name in TRAINED
    return LayerRun(
        shape,
        kernels if trained or kernels != "compiled" else "fused",
        BYTES[role.dtype],
        packed_kernel=device != "cpu" and role.dtype != "fp32",
        adapted=adapted_layers(shape, config) if trained else frozenset(),
        rank=config.model.lora_rank if trained else 0,
    )
