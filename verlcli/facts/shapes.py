"""What of a language model decides its memory, its time and how it can be split: sizes, not weights."""

from __future__ import annotations

from dataclasses import dataclass

# Families that the formula of `params` fits: within 0.1 % of the modules that transformers builds for them.
COUNTED_FAMILIES = frozenset(
    {
        "cohere",
        "deepseek_v3",
        "ernie4_5",
        "exaone4",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "glm",
        "glm4",
        "glm4_moe",
        "gpt_oss",
        "granite",
        "granitemoe",
        "internlm3",
        "kimi_k2",
        "llama",
        "minimax_m2",
        "mistral",
        "mixtral",
        "olmo2",
        "olmo3",
        "olmoe",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_5_vl",
        "qwen2_moe",
        "qwen2_vl",
        "qwen3",
        "qwen3_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
        "seed_oss",
        "smollm3",
    }
)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Sizes of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    q_lora_rank: int | None  # None: the query is one full projection
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


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
    attention_layers: int = 0  # layers that keep keys and values; others are linear attention
    latent: LatentAttention | None = None
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
        """Parameters of the language model, with all experts and without a vision tower; None: family not known.

        Embeddings, and for each layer attention, gated MLP or experts, and norms; biases are left out.
        """
        if self.model_type not in COUNTED_FAMILIES or self.attention_layers != self.num_hidden_layers:
            return None
        hidden, dense = self.hidden_size, self.num_hidden_layers - self.moe_layers
        embeddings = self.vocab_size * hidden * (1 if self.tie_word_embeddings else 2)
        expert_sizes = self.num_experts * self.moe_intermediate_size + self.shared_intermediate_size
        mlp = 3 * hidden * (dense * self.intermediate_size + self.moe_layers * expert_sizes)
        routers = self.moe_layers * self.num_experts * hidden
        norms = (2 * self.num_hidden_layers + 1) * hidden
        return embeddings + self.num_hidden_layers * self._attention() + mlp + routers + norms

    @property
    def kv_numbers_per_token(self) -> int:
        """Numbers that the KV cache holds for one token, over all layers; times the cache's bytes per number."""
        if self.latent is not None:
            return self.attention_layers * (self.latent.kv_lora_rank + self.latent.qk_rope_head_dim)
        return self.attention_layers * 2 * self.num_key_value_heads * self.head_dim

    def _attention(self) -> int:
        heads, hidden = self.num_attention_heads, self.hidden_size
        if self.latent is None:
            return 2 * hidden * self.head_dim * (heads + self.num_key_value_heads)
        latent = self.latent
        query_width = heads * (latent.qk_nope_head_dim + latent.qk_rope_head_dim)
        rank = latent.q_lora_rank
        query = hidden * query_width if rank is None else rank * (hidden + query_width)
        compress = hidden * (latent.kv_lora_rank + latent.qk_rope_head_dim)
        expand = latent.kv_lora_rank * heads * (latent.qk_nope_head_dim + latent.v_head_dim)
        return query + compress + expand + heads * latent.v_head_dim * hidden
