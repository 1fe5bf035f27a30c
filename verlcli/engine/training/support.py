"""Whether a model computes the same packed as padded: asked of its own forward passes, not of a list of names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from verlcli.engine.attention import attention
from verlcli.engine.batch import Batch, left_pad
from verlcli.engine.models import hugging_face
from verlcli.engine.packing import pack
from verlcli.engine.training.forwards import Forward

_PROMPTS, _RESPONSES = (5, 2, 11), (4, 9, 6)  # tokens
# Largest distance of a log-prob in nats, of a value in parts of the largest. A wrong mask or position is off by more.
_TOLERANCE = {torch.float32: 3e-4, torch.bfloat16: 0.5, torch.float16: 0.1}
# Others (convolutions, linear attention, chunks) carry or cut what the bounds of sequences do not tell them.
_PACKED_LAYERS = {"full_attention", "sliding_attention"}


@torch.no_grad()
def why_not_packed(module: nn.Module, forward: Forward) -> str | None:
    """Why `forward` of `module` must not run packed; None where a few sequences come out the same both ways.

    The random state and all weights stay as they are.

    Raises:
        OutOfMemoryError: the few sequences do not fit into memory.
    """
    head: Any = getattr(module, "value_head", None)  # of a critic
    model = hugging_face(module if head is None else module.language_model)
    config = model.config.get_text_config()
    if others := sorted(set(getattr(config, "layer_types", None) or ()) - _PACKED_LAYERS):
        return f"it has layers of type {', '.join(others)}"
    if head is None and type(model.get_output_embeddings()) is not nn.Linear:
        return "its output head is adapted"
    batch = _some_sequences(config.vocab_size, next(module.parameters()).device)
    try:
        with _telling(head):
            padded = _first(forward(batch, None))[batch.response_mask]
            with attention(module):
                packed = _first(forward(batch, pack(batch)))[batch.response_mask]
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a foreign architecture does not take
        return next(iter(str(error).splitlines()), type(error).__name__)
    scale = padded.new_ones(()) if head is None else padded.abs().max()
    gap = ((packed - padded).abs().max() / scale).item()
    limit = _TOLERANCE.get(next(module.parameters()).dtype, _TOLERANCE[torch.float32])
    # Written so that NaN is a difference.
    return None if gap <= limit else f"its results differ by {gap:.2g}"


@contextmanager
def _telling(head: nn.Linear | None) -> Iterator[None]:
    """Within: a critic's `head`, zero at the start, gives other values to other hidden states."""
    if head is None:
        yield
        return
    own = head.weight.clone()
    head.weight.copy_(torch.linspace(-1, 1, own.shape[-1]))
    try:
        yield
    finally:
        head.weight.copy_(own)


def _first(out: Any) -> Tensor:
    found: Tensor = out[0] if isinstance(out, tuple) else out
    return found.float()


def _some_sequences(vocabulary: int, device: torch.device) -> Batch:
    rows = [[(7 * i + 3 * j + 1) % vocabulary for i in range(n)] for j, n in enumerate(_PROMPTS)]
    ids, mask = left_pad(rows, 0, device)
    width = max(_RESPONSES)
    response_mask = torch.arange(width, device=device) < torch.tensor(_RESPONSES, device=device)[:, None]
    numbers = torch.arange(len(rows) * width, device=device).view(len(rows), width)
    responses = (numbers * 5 + 2) % vocabulary * response_mask
    return Batch(
        input_ids=torch.cat([ids, responses], 1),
        attention_mask=torch.cat([mask, response_mask.long()], 1),
        response_mask=response_mask,
        groups=torch.arange(len(rows), device=device),
    )
