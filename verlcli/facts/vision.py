"""Parameters of a vision tower with its projector, for the families whose vision-language models are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def vision_params(model_type: str, tower: Mapping[str, Any], hidden_size: int) -> int | None:
    """Parameters in front of a language model `hidden_size` wide; None for a family or a file not known.

    Args:
        tower: the `vision_config` of `config.json`. What published files leave out is what transformers' classes
            assume; the sums follow its `modeling_*.py`.
    """
    count = _TOWERS.get(model_type)
    try:
        return count(tower, hidden_size) if count else None
    except (ArithmeticError, KeyError, TypeError, ValueError):
        return None


def _qwen2_vl(tower: Mapping[str, Any], hidden: int) -> int:
    width: int = tower["embed_dim"]
    inner = int(width * tower.get("mlp_ratio", 4))
    block = _attention(width) + 2 * width * inner + inner + width + 4 * width
    return _patches(tower, width, 14) + int(tower["depth"]) * block + _merger(width, hidden, norm=2 * width)


def _qwen2_5_vl(tower: Mapping[str, Any], hidden: int) -> int:
    width, inner = _widths(tower)
    block = _attention(width) + 3 * width * inner + 2 * inner + width + 2 * width
    return _patches(tower, width, 14) + int(tower["depth"]) * block + _merger(width, hidden, norm=width)


def _qwen3_vl(tower: Mapping[str, Any], hidden: int) -> int:
    width, inner = _widths(tower)
    block = _attention(width) + 2 * width * inner + inner + width + 4 * width
    positions = tower["num_position_embeddings"] * width
    # Besides the last layer, some layers in between have a merger of their own, with a wider norm.
    between = len(tower["deepstack_visual_indexes"]) * _merger(width, hidden, norm=8 * width)
    first: int = _patches(tower, width, 16) + width + positions
    return first + int(tower["depth"]) * block + _merger(width, hidden, norm=2 * width) + between


def _gemma3(tower: Mapping[str, Any], hidden: int) -> int:
    (width, inner), patch = _widths(tower), tower["patch_size"]
    block = _attention(width) + 2 * width * inner + inner + width + 4 * width
    first = 3 * patch * patch * width + width + (tower["image_size"] // patch) ** 2 * width
    return int(first + tower["num_hidden_layers"] * block + 2 * width + width * hidden + width)


def _widths(tower: Mapping[str, Any]) -> tuple[int, int]:
    """Of the residual stream and of the MLP."""
    return int(tower["hidden_size"]), int(tower["intermediate_size"])


def _attention(width: int) -> int:
    return 4 * (width * width + width)


def _patches(tower: Mapping[str, Any], width: int, patch: int) -> int:
    size = tower.get("patch_size", patch)
    return int(3 * tower.get("temporal_patch_size", 2) * size * size * width)


def _merger(width: int, hidden: int, *, norm: int) -> int:
    """Norm and two layers that turn 2 × 2 patches into one token of the language model."""
    four = 4 * width
    return norm + four * four + four + four * hidden + hidden


_TOWERS: dict[str, Callable[[Mapping[str, Any], int], int]] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "gemma3": _gemma3,
}
