"""What a decoder layer keeps for its backward pass, tensor by tensor, and what it works with while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from verlcli.facts import ModelShape
from verlcli.facts.families import find_family

Kernels = Literal["fused", "compiled", "eager"]
Recompute = Literal["none", "full", "selective", "offload"]
# Families whose norms, MLPs and rotary embeddings our kernels compute; of others torch.compile makes its own.
FUSED_FAMILIES = frozenset(
    {"llama", "mistral", "qwen2", "qwen3", "seed_oss", "internlm3", "smollm3", "olmo2", "olmo3", "exaone4", "granite"}
)
PRODUCT = "silu(gate) x up"
IN_FLIGHT = 2  # layers' inputs on the device while others are moved to the host or back


@dataclass(frozen=True, slots=True)
class LayerRun:
    """How the layers of a model run in training.

    Attributes:
        kernels: our own, torch.compile's, or those of the layers in transformers.
        width: bytes of a number.
        packed_kernel: attention takes packed sequences and fewer key heads as they are; else both are copied out.
        adapted: names of the linear layers that LoRA trains; None: everything is trained.
        rank: of the adapters.
    """

    shape: ModelShape
    kernels: Kernels
    width: int
    packed_kernel: bool
    adapted: frozenset[str] | None = None
    rank: int = 0

    def trains(self, *names: str) -> bool:
        """Whether one of these linear layers needs its input for a gradient."""
        return self.adapted is None or not self.adapted.isdisjoint(names)

    @property
    def mlp_width(self) -> int:
        """Numbers of a token between the products of gated MLPs, those of all its experts together."""
        shape = self.shape
        experts = shape.experts_per_token * shape.moe_intermediate_size + shape.shared_intermediate_size
        return max(experts if shape.moe_layers else 0, self._dense_width)

    @property
    def expert_rows(self) -> int:
        """Numbers of a token's copies that go to its experts, come back, and are weighted."""
        return 3 * self.shape.experts_per_token * self.shape.hidden_size if self.shape.moe_layers else 0

    @property
    def _dense_width(self) -> int:
        return self.shape.intermediate_size if self.shape.moe_layers < self.shape.num_hidden_layers else 0


def kept_tensors(run: LayerRun, *, experts: bool = False) -> dict[str, float]:
    """Bytes a token of each tensor that a layer keeps when nothing is recomputed; with `experts`: of such a layer."""
    return {
        **_norm(run, "input norm", run.shape.hidden_size),
        **_attention(run),
        **_norm(run, "mlp norm", run.shape.hidden_size),
        **_further_norms(run),
        **(_experts(run) if experts else _mlp(run, run.shape.intermediate_size)),
    }


def layers_bytes(run: LayerRun, recompute: Recompute, *, offloads: bool) -> float:
    """Bytes a token that all layers keep from the forward to the backward pass.

    Args:
        offloads: the device has a host to move to: it is a GPU.
    """
    shape, layer_input = run.shape, run.shape.hidden_size * run.width
    dense = shape.num_hidden_layers - shape.moe_layers
    if recompute == "offload" and offloads:
        return min(IN_FLIGHT, shape.num_hidden_layers) * layer_input
    if recompute in ("full", "offload"):
        return shape.num_hidden_layers * layer_input
    if recompute == "selective":
        with_mlp = dense * sum(_mlp_products(run).values())
        return with_mlp + shape.num_hidden_layers * (layer_input + sum(_attention_products(run).values()))
    kept = dense * sum(kept_tensors(run).values())
    if shape.moe_layers:
        kept += shape.moe_layers * sum(kept_tensors(run, experts=True).values())
    return kept - _before_adapters(run)


def rotary_bytes(run: LayerRun) -> float:
    """Bytes a token of cosines and sines, which all layers share."""
    return 2.0 * run.shape.head_dim * run.width


def last_norm_bytes(run: LayerRun) -> float:
    """Bytes a token of the norm behind the layers."""
    return sum(_norm(run, "last norm", run.shape.hidden_size).values())


def backward_bytes(run: LayerRun, recompute: Recompute) -> float:
    """Bytes a token beside what is kept while one layer's gradients are computed.

    The MLP's decide: gradients of gate, up and their product, and of the residual stream. By the turn of attention the
    MLP's own tensors are gone, and the product itself is gone before. A recomputed layer has all its tensors again.
    """
    kept = kept_tensors(run, experts=run.shape.moe_layers > 0)
    product = sum(size for name, size in kept.items() if name.endswith(PRODUCT))
    work: float = (3 * run.mlp_width + run.expert_rows + run.shape.hidden_size) * run.width - product
    if recompute == "none":
        return work
    shared: float = run.shape.hidden_size * run.width  # its input
    if recompute == "selective":
        shared += sum(_attention_products(run).values())
        shared += 0 if run.shape.moe_layers else sum(_mlp_products(run).values())
    return max(0.0, sum(kept.values()) - shared) + work


def forward_bytes(run: LayerRun) -> float:
    """Bytes a token of one layer without gradients: in its MLP (gate, up, their product, and the stream thrice: as it
    came in, with attention's result, normed), or in its attention, which holds copies for want of our kernels."""
    shape = run.shape
    queries, keys = _queries(shape), shape.num_key_value_heads * shape.head_dim
    copies = 1 if run.packed_kernel and run.kernels != "eager" else 3
    attention = 2 * shape.hidden_size + (1 + copies) * queries + 2 * keys
    # An adapter's result stands beside the layer's own.
    products = 4 if run.adapted and run.trains("up_proj", "gate_up_proj") else 3
    mlp = products * run.mlp_width + run.expert_rows + 3 * shape.hidden_size
    return max(mlp, attention) * run.width + rotary_bytes(run)


def last_forward_bytes(run: LayerRun) -> float:
    """Bytes a token beside what is kept at the end of the last layer: the product and the stream."""
    return (run.mlp_width + run.expert_rows + 2 * run.shape.hidden_size) * run.width


def _norm(run: LayerRun, name: str, width: int, rows: int = 1) -> dict[str, float]:
    """Of an RMSNorm over `width` numbers of a token in `rows` rows."""
    scale = {f"{name}: scale": 4.0 * rows}
    if run.kernels != "eager":
        return {f"{name}: input": width * run.width, **scale}
    # Transformers computes norms in fp32: a copy of the input, but where that is in fp32 already.
    normed = {f"{name}: normed": width * run.width} if run.adapted is None else {}
    return {f"{name}: input in fp32": 4.0 * width, **scale, **normed}


def _before_adapters(run: LayerRun) -> float:
    """Bytes a token that the first layer need not keep: before its first adapters nothing has a gradient."""
    if run.adapted is None:
        return 0.0
    plain = ["input norm", *(f"{name} norm" for name in ("query", "key") if f"{name[0]}_proj" not in run.adapted)]
    return sum(size for name, size in kept_tensors(run).items() if name.startswith(tuple(plain)))


def _further_norms(run: LayerRun) -> dict[str, float]:
    """Gemma 3 and GLM 4 have norms behind attention and MLP too."""
    family = find_family(run.shape.model_type)
    kept: dict[str, float] = {}
    for i in range(2, family.norms if family else 2):
        kept |= _norm(run, f"norm {i + 1}", run.shape.hidden_size)
    return kept


def _attention(run: LayerRun) -> dict[str, float]:
    shape, width = run.shape, run.width
    queries, keys = _queries(shape), shape.num_key_value_heads * shape.head_dim
    read = keys if run.packed_kernel else queries
    kept: dict[str, float] = {}
    if run.trains("q_proj", "k_proj", "v_proj", "qkv_proj"):
        kept["attention input"] = shape.hidden_size * width
    if shape.qk_norm:
        family = find_family(shape.model_type)
        of_heads = family is None or family.qk_norm_width == "head"
        kept |= _norm(run, "query norm", queries, shape.num_attention_heads if of_heads else 1)
        kept |= _norm(run, "key norm", keys, shape.num_key_value_heads if of_heads else 1)
    kept |= {"query": queries * width, "key": read * width, "value": read * width, "attention output": queries * width}
    kept["logsumexp"] = 4.0 * shape.num_attention_heads
    return kept | _adapters(run, "q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj")


def _mlp(run: LayerRun, inner: int) -> dict[str, float]:
    width = run.width
    kept: dict[str, float] = {}
    if run.trains("gate_proj", "up_proj", "gate_up_proj"):
        kept["mlp input"] = run.shape.hidden_size * width
    kept |= {"gate": inner * width, "up": inner * width}
    if run.kernels == "eager":
        kept["silu(gate)"] = inner * width
    # Our kernel makes the product again for the gradient of the weight it is multiplied with, not for an adapter's.
    again = run.kernels == "fused" and run.adapted is None
    if run.trains("down_proj") and not again:
        kept[PRODUCT] = inner * width
    return kept | _adapters(run, "gate_proj", "up_proj", "gate_up_proj", "down_proj")


def _experts(run: LayerRun) -> dict[str, float]:
    """Rows go to their experts sorted, as copies, and come back weighted; transformers' own code, whatever the rest."""
    shape, width = run.shape, run.width
    rows, inner = shape.experts_per_token, shape.experts_per_token * shape.moe_intermediate_size
    kept = {
        "router": 2 * 4.0 * shape.num_experts,
        "expert input": rows * shape.hidden_size * width,
        "expert gate": inner * width,
        "expert up": inner * width,
        "expert silu(gate)": inner * width,
        f"expert {PRODUCT}": inner * width,
        "expert output": rows * shape.hidden_size * width,
        "mlp input": shape.hidden_size * width,
    }
    shared = _mlp(run, shape.shared_intermediate_size) if shape.shared_intermediate_size else {}
    return kept | {f"shared {name}": size for name, size in shared.items()}


def _adapters(run: LayerRun, *names: str) -> dict[str, float]:
    adapted = run.adapted or frozenset()
    return {f"adapter of {name}": run.rank * run.width for name in names if name in adapted}


def _attention_products(run: LayerRun) -> dict[str, float]:
    """What `selective` keeps: the results of matrix products and attention."""
    shape = run.shape
    keys = shape.num_key_value_heads * shape.head_dim
    sizes = {"q_proj": _queries(shape), "k_proj": keys, "v_proj": keys, "o_proj": shape.hidden_size}
    attention = {"attention output": _queries(shape) * run.width, "logsumexp": 4.0 * shape.num_attention_heads}
    return _results(run, sizes) | attention


def _mlp_products(run: LayerRun) -> dict[str, float]:
    """The same of a dense MLP. Products of experts are recomputed."""
    inner = run.shape.intermediate_size
    return _results(run, {"gate_proj": inner, "up_proj": inner, "down_proj": run.shape.hidden_size})


def _results(run: LayerRun, sizes: dict[str, int]) -> dict[str, float]:
    """Of linear layers with these outputs, and of their adapters' two products."""
    adapted = run.adapted or frozenset()
    own = {name: float(size * run.width) for name, size in sizes.items()}
    return own | {f"adapter of {name}": (sizes[name] + run.rank) * run.width for name in sizes if name in adapted}


def _queries(shape: ModelShape) -> int:
    return shape.num_attention_heads * shape.head_dim
