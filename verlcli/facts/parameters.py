"""A model's shape -> its parameters, module by module and exact: the modules that transformers 5 builds for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from verlcli.errors import ConfigError
from verlcli.facts.families import Family, find_family

if TYPE_CHECKING:
    from verlcli.facts.shapes import DeltaNet, LatentAttention, ModelShape

_GATE_UP, _DOWN = "experts.gate_up_proj", "experts.down_proj"
# PEFT 0.21 knows the experts of some families by the names they had in transformers 4, "gate" the router.
_EXPERTS_BY_OLD_NAME = {
    "mixtral": {"gate": "gate", "w1": _GATE_UP, "w3": _GATE_UP, "w2": _DOWN},
    "qwen2_moe": {"gate": "gate", "gate_proj": _GATE_UP, "up_proj": _GATE_UP, "down_proj": _DOWN},
}


@dataclass(frozen=True, slots=True)
class Linear:
    """A matrix product that stands in the model `count` times: weight `[outputs, inputs]`, and maybe a bias.

    Attributes:
        name: last part of the module's name, such as `q_proj`; of experts, which are one parameter for all,
            `experts.gate_up_proj` and `experts.down_proj`, counted by expert.
        module: an `nn.Linear`; False: experts and their router, bare parameters.
    """

    name: str
    inputs: int
    outputs: int
    bias: bool
    count: int
    module: bool = True

    @property
    def params(self) -> int:
        """Numbers in all of them."""
        return self.count * self.outputs * (self.inputs + self.bias)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a language model, in numbers. `linears` leaves out the output head, which is `head`."""

    linears: tuple[Linear, ...]
    embedding: int
    head: int  # without a weight that is the embedding's
    norms: int
    other: int  # attention sinks, and what delta nets hold besides products and norms

    @property
    def total(self) -> int:
        """All of them; a tied weight counts once."""
        return sum(linear.params for linear in self.linears) + self.embedding + self.head + self.norms + self.other


def parameter_counts(shape: ModelShape) -> Parameters | None:
    """Parameters of the language part of a model; None: its family, or a size that it needs, is not known."""
    family, delta_layers = find_family(shape.model_type), shape.num_hidden_layers - shape.attention_layers
    delta = shape.delta_net if delta_layers else None
    if family is None or (delta_layers and not (family.gated_query and delta)):
        return None
    embedding = shape.vocab_size * shape.hidden_size
    return Parameters(
        linears=tuple(linear for linear in _linears(shape, family, delta, delta_layers) if linear.count),
        embedding=embedding,
        head=(0 if shape.tie_word_embeddings else embedding) + shape.head_bias * shape.vocab_size,
        norms=_norms(shape, family) + (delta_layers * delta.value_head_dim if delta else 0),
        other=_sinks(shape, family) + (delta_layers * _delta_rest(delta) if delta else 0),
    )


def lora_params(shape: ModelShape, rank: int, targets: str | Sequence[str]) -> int | None:
    """Numbers that LoRA adapters of `rank` add to the language part of a model, as PEFT 0.21 places them.

    Args:
        targets: as `model.lora_target_modules` takes them: last parts of modules' names, or `all-linear`.

    Returns:
        None: the model's parameters are not known, or the targets are paths or a pattern, which nobody counts here.

    Raises:
        ConfigError: no module has such a name, or a name stands for one half of a fused weight.
    """
    counts, family = parameter_counts(shape), find_family(shape.model_type)
    if counts is None or family is None:
        return None
    old_names = _EXPERTS_BY_OLD_NAME[family.renamed_experts] if family.renamed_experts else {}
    if not isinstance(targets, str):
        names = set(targets)
    elif targets.lower() == "all-linear":
        names = {linear.name for linear in counts.linears if linear.module} | set(old_names)
    else:
        return None
    if any("." in name for name in names):
        return None
    _refuse_halves(names, old_names)
    reached = {old_names[name] for name in names & set(old_names)}
    wanted = names - set(old_names)
    adapted = [linear for linear in counts.linears if linear.name in (wanted if linear.module else reached)]
    tables = len(wanted & {"embed_tokens", "lm_head"})
    if not adapted and not tables:
        choices = sorted({linear.name for linear in counts.linears if linear.module})
        raise _bad_targets(f"no module of this model is named {_listed(names)}", f"choose among {_listed(choices)}")
    # An adapter of two fused weights has the rank of both.
    sizes = sum((2 if x.name == _GATE_UP else 1) * x.count * (x.inputs + x.outputs) for x in adapted)
    return rank * (sizes + tables * (shape.vocab_size + shape.hidden_size))


def _refuse_halves(names: set[str], old_names: dict[str, str]) -> None:
    halves = {name for name, new in old_names.items() if new == _GATE_UP}
    if names & halves and not halves <= names:
        raise _bad_targets(
            f"{_listed(names & halves)} without {_listed(halves - names)}: in this model they are one weight",
            f"name both {' and '.join(sorted(halves))}, or neither",
        )


def _bad_targets(message: str, fix: str) -> ConfigError:
    return ConfigError(message, where="model.lora_target_modules", fix=f"{fix}, or all-linear")


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(names))


def _linears(shape: ModelShape, family: Family, delta: DeltaNet | None, delta_layers: int) -> Iterator[Linear]:
    yield from _latent(shape, shape.latent) if shape.latent else _attention(shape, family)
    if delta:
        yield from _delta(shape.hidden_size, delta, delta_layers)
    yield from _mlp(shape, family, shape.intermediate_size, shape.num_hidden_layers - shape.moe_layers)
    yield from _experts(shape, family)


def _attention(shape: ModelShape, family: Family) -> Iterator[Linear]:
    hidden, layers, bias = shape.hidden_size, shape.attention_layers, shape.qkv_bias
    queries, keys = shape.num_attention_heads * shape.head_dim, shape.num_key_value_heads * shape.head_dim
    if family.fused_qkv:
        yield Linear("qkv_proj", hidden, queries + 2 * keys, bias, layers)
    else:
        yield Linear("q_proj", hidden, queries * (2 if family.gated_query else 1), bias, layers)
        yield Linear("k_proj", hidden, keys, bias, layers)
        yield Linear("v_proj", hidden, keys, bias, layers)
    yield Linear("o_proj", queries, hidden, shape.output_bias, layers)


def _latent(shape: ModelShape, latent: LatentAttention) -> Iterator[Linear]:
    hidden, heads, layers, bias = shape.hidden_size, shape.num_attention_heads, shape.attention_layers, shape.qkv_bias
    queries, rank = heads * (latent.qk_nope_head_dim + latent.qk_rope_head_dim), latent.kv_lora_rank
    if latent.q_lora_rank is None:
        yield Linear("q_proj", hidden, queries, False, layers)
    else:
        yield Linear("q_a_proj", hidden, latent.q_lora_rank, bias, layers)
        yield Linear("q_b_proj", latent.q_lora_rank, queries, False, layers)
    yield Linear("kv_a_proj_with_mqa", hidden, rank + latent.qk_rope_head_dim, bias, layers)
    yield Linear("kv_b_proj", rank, heads * (latent.qk_nope_head_dim + latent.v_head_dim), False, layers)
    yield Linear("o_proj", heads * latent.v_head_dim, hidden, shape.output_bias, layers)


def _delta(hidden: int, delta: DeltaNet, layers: int) -> Iterator[Linear]:
    values = delta.num_value_heads * delta.value_head_dim
    yield Linear("in_proj_qkv", hidden, _delta_channels(delta), False, layers)
    yield Linear("in_proj_z", hidden, values, False, layers)
    yield Linear("in_proj_b", hidden, delta.num_value_heads, False, layers)
    yield Linear("in_proj_a", hidden, delta.num_value_heads, False, layers)
    yield Linear("out_proj", values, hidden, False, layers)


def _mlp(shape: ModelShape, family: Family, width: int, layers: int) -> Iterator[Linear]:
    hidden, bias = shape.hidden_size, shape.mlp_bias
    if family.fused_gate_up:
        yield Linear("gate_up_proj", hidden, 2 * width, bias, layers)
    else:
        yield Linear("gate_proj", hidden, width, bias, layers)
        yield Linear("up_proj", hidden, width, bias, layers)
    yield Linear("down_proj", width, hidden, bias, layers)


def _experts(shape: ModelShape, family: Family) -> Iterator[Linear]:
    hidden, width, bias = shape.hidden_size, shape.moe_intermediate_size, family.expert_bias
    layers, experts = shape.moe_layers, shape.num_experts
    yield Linear(family.router, hidden, experts, bias, layers, module=family.linear_router)
    yield Linear(_GATE_UP, hidden, 2 * width, bias, layers * experts, module=False)
    yield Linear(_DOWN, width, hidden, bias, layers * experts, module=False)
    if shape.shared_intermediate_size:
        yield from _mlp(shape, family, shape.shared_intermediate_size, layers)
        yield Linear("shared_expert_gate", hidden, 1, False, layers if family.shared_gate else 0)


def _norms(shape: ModelShape, family: Family) -> int:
    wide = (family.norms * shape.num_hidden_layers + 1) * shape.hidden_size * (2 if family.norm_bias else 1)
    if shape.latent:
        return wide + shape.attention_layers * ((shape.latent.q_lora_rank or 0) + shape.latent.kv_lora_rank)
    heads = shape.num_attention_heads + shape.num_key_value_heads if family.qk_norm_width == "heads" else 2
    return wide + (shape.attention_layers * heads * shape.head_dim if shape.qk_norm else 0)


def _sinks(shape: ModelShape, family: Family) -> int:
    return shape.attention_layers * shape.num_attention_heads if family.sinks else 0


def _delta_rest(delta: DeltaNet) -> int:
    """The convolution over tokens; each head's decay and step."""
    return _delta_channels(delta) * delta.conv_kernel_dim + 2 * delta.num_value_heads


def _delta_channels(delta: DeltaNet) -> int:
    return 2 * delta.num_key_heads * delta.key_head_dim + delta.num_value_heads * delta.value_head_dim
