"""Whether the graph engine generates what the model would: asked of its own forward pass, not of a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from verlcli.engine.rollout._base import Rollout, Sampling
from verlcli.engine.rollout.graph.attention import UnsupportedModelError

if TYPE_CHECKING:
    from verlcli.engine.rollout.graph.engine import GraphRollout

LENGTHS = (3, 7, 5)  # of the prompts
TOKENS = 4
# Mean distance of log-probs, over a few tokens. bf16 models of random weights and 32 layers were seen at 0.07 (H200).
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.2, torch.float16: 0.05}
HEAD_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 4e-3}  # relative, of the head by itself


def why_not(engine: GraphRollout, model: Any, longest: int) -> str | None:
    """Why `engine` cannot generate for `model`; None when it can.

    A few tokens are generated and judged by the model's own forward pass.

    Args:
        longest: tokens of prompt and response, which a sliding window must not be shorter than.
    """
    config = model.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        return "it has an encoder"
    window = getattr(config, "sliding_window", None)
    if window is not None and window < longest and getattr(config, "use_sliding_window", True):
        return f"its attention slides over {window} tokens, sequences may have {longest}"
    if kind := _changing_rotation(config, longest, model.device.type):
        return f"its rotary embedding ({kind}) changes with a sequence's length"
    prompts = [[(7 * i + 3 * j + 1) % config.vocab_size for i in range(n)] for j, n in enumerate(LENGTHS)]
    try:
        rollout = engine.generate(prompts, 1, Sampling(TOKENS, min_tokens=TOKENS))
        return _disagreement(engine, model, rollout)
    except UnsupportedModelError as error:
        return str(error)
    except Exception as error:  # whatever a foreign architecture does not take
        return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


@torch.no_grad()
def _disagreement(engine: GraphRollout, model: Any, rollout: Rollout) -> str | None:
    ids = torch.cat([rollout.prompt_ids, rollout.tokens], 1)
    mask = torch.cat([rollout.prompt_mask, rollout.mask.long()], 1)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp_min(0)}
    logits = model(**inputs, use_cache=False).logits[:, -TOKENS - 1 : -1].float()
    hidden = model.base_model(**inputs, use_cache=False).last_hidden_state[:, -TOKENS - 1 : -1]
    dtype = hidden.dtype
    difference = engine.logits(hidden.flatten(0, 1)) - logits.flatten(0, 1)
    # Written so that NaN is a disagreement.
    if not difference.norm() <= HEAD_TOLERANCE.get(dtype, HEAD_TOLERANCE[torch.float32]) * logits.norm():
        return "it does something of its own to its logits"
    scores = logits.index_fill(-1, torch.tensor(engine.eos_ids, device=ids.device), float("-inf"))
    own = scores.log_softmax(-1).gather(-1, rollout.tokens[..., None]).squeeze(-1)
    gap = (own - rollout.logprobs).abs().mean().item()
    if not gap <= TOLERANCE.get(dtype, TOLERANCE[torch.float32]):
        return f"its log-probs differ by {gap:.2g} from those of its own forward pass"
    return None


def _changing_rotation(config: Any, longest: int, device: str) -> str | None:
    """The kind of a rotary embedding whose angles depend on the longest sequence of a batch, where that matters."""
    kinds = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    for each in (kinds, *(value for value in kinds.values() if isinstance(value, dict))):
        kind = each.get("rope_type", each.get("type"))
        if kind in ("longrope", "dynamic"):
            original = (
                each.get("original_max_position_embeddings")
                or getattr(config, "original_max_position_embeddings", None)
                or config.max_position_embeddings
            )
            # On a GPU its look at the length cannot be captured in a graph.
            if longest > original or device == "cuda":
                return str(kind)
    return None
