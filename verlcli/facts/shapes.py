"""What of a language model decides its memory, its time and how it can be split: sizes, not weights."""

from __future__ import annotations

from dataclasses import dataclass

from verlcli.facts.parameters import parameter_counts


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Sizes of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    q_lora_rank: int | None  # None: the query is one full projection
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class DeltaNet:
    """Sizes of gated delta nets (arXiv 2412.06464), which stand for attention in some layers of Qwen3.5."""

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel_dim: int  # tokens


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of the language model; of a vision model, its language part. Counts are of numbers, not bytes.

    `rope_factor` is what stretches the positions: 1.0 without scaling and for kinds whose `max_position_embeddings`
    is stretched already (llama3, longrope, Gemma 3).
    """

    model_type: str
    architectures: tuple[str, ...]
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    source: str  # for people: where this is known from
    rope_factor: float = 1.0
    original_positions: int | None = None  # what yarn stretches, when it is not max_position_embeddings
    tie_word_embeddings: bool = False
    num_experts: int = 0  # 0: dense
    experts_per_token: int = 0
    moe_intermediate_size: int = 0  # of one expert
    shared_intermediate_size: int = 0  # of all experts that every token passes
    moe_layers: int = 0  # the rest of the layers is dense
    window: int | None = None  # tokens that a layer with a sliding window sees
    changing_rope: bool = False  # angles depend on how long a batch's sequences are
    attention_layers: int = 0  # layers that keep keys and values; others are linear attention
    latent: LatentAttention | None = None
    delta_net: DeltaNet | None = None  # of the layers without attention; None: not known
    qkv_bias: bool = False
    output_bias: bool = False  # of the attention's output projection
    mlp_bias: bool = False
    head_bias: bool = False  # of the output head
    qk_norm: bool = False
    vision: bool = False
    vision_params: int | None = 0  # of the vision tower with its projector; None: a tower that is not known
    quantized: str | None = None  # the weights' method, such as fp8 or awq
    dtype: str | None = None  # of the stored weights, such as bfloat16

    @property
    def max_length(self) -> int:
        """Longest sequence in tokens, as vLLM derives it from config.json (`_get_and_verify_max_len`)."""
        return int((self.original_positions or self.max_position_embeddings) * self.rope_factor)

    @property
    def params(self) -> int | None:
        """Parameters of the language model, with all experts and without a vision tower; None: family not known."""
        counts = parameter_counts(self)
        return counts.total if counts else None

    @property
    def kv_numbers_per_token(self) -> int:
        """Numbers that the KV cache holds for one token, over all layers; times the cache's bytes per number."""
        if self.latent is not None:
            return self.attention_layers * (self.latent.kv_lora_rank + self.latent.qk_rope_head_dim)
        return self.attention_layers * 2 * self.num_key_value_heads * self.head_dim
