"""What a `model_type` decides of a model's modules beyond its `config.json`, as transformers' classes have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Flag:
    """A switch that the first of `keys` in `config.json` sets."""

    keys: tuple[str, ...] = ()
    default: bool = False

    def read(self, config: Mapping[str, Any]) -> bool:
        """Its value in a config that may be silent."""
        return next((bool(config[key]) for key in self.keys if config.get(key) is not None), self.default)


_NEVER, _ALWAYS = Flag(), Flag(default=True)
_ATTENTION, _MLP, _QK_NORM = Flag(("attention_bias",)), Flag(("mlp_bias",)), Flag(("use_qk_norm",))
_ATTENTION_ON, _USE_BIAS = Flag(("attention_bias",), default=True), Flag(("use_bias",))


@dataclass(frozen=True, slots=True)
class Family:
    """Modules that all models of a family share: a decoder of attention and gated MLPs or experts.

    Attributes:
        norms: in one layer, each as wide as the hidden state.
        qk_norm_width: of the norms on queries and keys: one head, or all heads beside each other.
        gated_query: the query's projection also yields a gate for the attention's output, and the layers without
            attention are gated delta nets (arXiv 2412.06464).
        expert_bias: experts and their router have biases.
        renamed_experts: the names by which PEFT knows the experts, which transformers 5 fuses into one parameter.
        tied: when the file is silent.
        head_dim: when the file is silent; None: the hidden size over the heads.
    """

    norms: int = 2
    norm_bias: bool = False
    qkv_bias: Flag = _ATTENTION
    output_bias: Flag = _ATTENTION
    mlp_bias: Flag = _NEVER
    head_bias: Flag = _NEVER
    qk_norm: Flag = _NEVER
    qk_norm_width: Literal["head", "heads"] = "head"
    fused_qkv: bool = False
    fused_gate_up: bool = False
    gated_query: bool = False
    sinks: bool = False  # one learned number a head
    router: str = "gate"
    linear_router: bool = False  # the router is an `nn.Linear`, as adapters see it
    expert_bias: bool = False
    shared_gate: bool = False  # one number a token weighs the shared expert
    renamed_experts: Literal["mixtral", "qwen2_moe"] | None = None
    tied: bool = False
    head_dim: int | None = None


_PLAIN = Family(qkv_bias=_NEVER, output_bias=_NEVER)
_QWEN2 = Family(qkv_bias=_ALWAYS, output_bias=_NEVER)
_QWEN3 = Family(qk_norm=_ALWAYS, head_dim=128)
_QWEN3_5 = replace(_QWEN3, gated_query=True, head_dim=256)
_GEMMA2 = Family(norms=4, tied=True, head_dim=256)
_GEMMA3 = replace(_GEMMA2, qk_norm=_ALWAYS)
_GLM = Family(qkv_bias=_ATTENTION_ON, output_bias=_NEVER, fused_gate_up=True, head_dim=128)
_OLMO2 = Family(qk_norm=_ALWAYS, qk_norm_width="heads")
_DEEPSEEK = Family(renamed_experts="qwen2_moe")

_FAMILIES: dict[str, Family] = {
    "cohere": Family(norms=1, qk_norm=_QK_NORM, qk_norm_width="heads", tied=True),
    "deepseek_v3": _DEEPSEEK,
    "ernie4_5": Family(qkv_bias=_USE_BIAS, output_bias=_USE_BIAS, mlp_bias=_USE_BIAS, tied=True, head_dim=128),
    "exaone4": replace(_PLAIN, qk_norm=_ALWAYS),
    "gemma": Family(tied=True, head_dim=256),
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "glm": _GLM,
    "glm4": replace(_GLM, norms=4),
    "glm4_moe": Family(output_bias=_NEVER, qk_norm=_QK_NORM, renamed_experts="qwen2_moe"),
    "gpt_oss": Family(
        qkv_bias=_ATTENTION_ON, output_bias=_ATTENTION_ON, sinks=True, router="router", expert_bias=True, head_dim=64
    ),
    "granite": Family(mlp_bias=_MLP),
    "granitemoe": Family(router="router"),
    "internlm3": Family(
        qkv_bias=Flag(("qkv_bias", "attention_bias")),
        output_bias=Flag(("qkv_bias", "attention_bias")),
        mlp_bias=Flag(("bias", "mlp_bias")),
        head_dim=128,
    ),
    "kimi_k2": _DEEPSEEK,
    "llama": Family(mlp_bias=_MLP),
    "minimax_m2": replace(_PLAIN, qk_norm=_ALWAYS, qk_norm_width="heads", renamed_experts="mixtral", head_dim=128),
    "mistral": _PLAIN,
    "mixtral": replace(_PLAIN, renamed_experts="mixtral"),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": replace(_OLMO2, renamed_experts="qwen2_moe"),
    "phi3": replace(_PLAIN, fused_qkv=True, fused_gate_up=True),
    "phimoe": Family(norm_bias=True, head_bias=Flag(("lm_head_bias",)), router="router", linear_router=True),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_moe": Family(qkv_bias=Flag(("qkv_bias",), default=True), output_bias=_NEVER, shared_gate=True),
    "qwen2_vl": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_5": _QWEN3_5,
    "qwen3_5_moe": replace(_QWEN3_5, shared_gate=True),
    "qwen3_moe": replace(_QWEN3, head_dim=None, renamed_experts="qwen2_moe"),
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe": replace(_QWEN3, head_dim=None),
    "seed_oss": Family(qkv_bias=_ATTENTION_ON, output_bias=Flag(("attention_out_bias",)), mlp_bias=_MLP, head_dim=128),
    "smollm3": Family(mlp_bias=_MLP, tied=True),
}


def find_family(model_type: str) -> Family | None:
    """The family of a `model_type`, that of a vision model's language part included; None: not known here."""
    return _FAMILIES.get(model_type.removesuffix("_text"))
