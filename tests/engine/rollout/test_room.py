"""Generation that runs out of memory: once more with half as many sequences, from the same random state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from verlcli.engine.rollout import GraphRollout, HfRollout, RolloutEngine, Sampling
from verlcli.engine.rollout.room import generate_with_room
from verlcli.errors import DoesNotFitError

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]
SAMPLING = Sampling(6, min_tokens=6)


@pytest.fixture(params=[GraphRollout, HfRollout])
def make(request: pytest.FixtureRequest, tiny_model: Path) -> Callable[..., RolloutEngine]:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    return lambda batch_size=None: request.param(model, eos_ids=[2], pad_id=0, batch_size=batch_size)


def tight(engine: Any, most: int) -> list[int]:
    """Let `engine` run out of memory above `most` sequences at once; returns the list of all sizes tried."""
    model, sizes = engine._model, list[int]()
    forward = model.forward if isinstance(engine, HfRollout) else model.base_model.forward
    owner = model if isinstance(engine, HfRollout) else model.base_model

    def limited(*args: Any, **kwargs: Any) -> Any:
        rows = len(kwargs["input_ids"])
        sizes.append(rows)
        if rows > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore.")
        return forward(*args, **kwargs)

    owner.forward = limited
    return sizes


def test_half_as_many_at_once_stay_and_the_draw_is_repeated(make: Callable[..., RolloutEngine]) -> None:
    torch.manual_seed(3)
    wanted = make(6).generate(PROMPTS, 4, SAMPLING)
    engine, notices = make(), list[str]()
    sizes = tight(engine, 6)
    torch.manual_seed(3)
    got = generate_with_room(engine, PROMPTS, 4, SAMPLING, on_notice=notices.append)
    assert got.tokens.equal(wanted.tokens)
    assert max(sizes) == 12
    assert [n for n in notices if "half as many" in n and "Tried to allocate 2.00 GiB" in n] == notices != []
    sizes.clear()
    generate_with_room(engine, PROMPTS, 4, SAMPLING, on_notice=notices.append)
    assert max(sizes) <= 6
    assert len(notices) == 1


def test_the_second_failure_says_what_to_change(make: Callable[..., RolloutEngine]) -> None:
    engine, notices = make(), list[str]()
    tight(engine, 0)
    with pytest.raises(DoesNotFitError, match="Tried to allocate") as caught:
        generate_with_room(engine, PROMPTS, 4, SAMPLING, on_notice=notices.append)
    assert "rollout.batch_size" in str(caught.value.fix)
    assert len(notices) == 1


def test_one_sequence_is_not_tried_again(make: Callable[..., RolloutEngine]) -> None:
    engine = make()
    sizes = tight(engine, 0)
    with pytest.raises(DoesNotFitError):
        generate_with_room(engine, PROMPTS[:1], 1, SAMPLING, on_notice=pytest.fail)
    assert len(sizes) == 1
