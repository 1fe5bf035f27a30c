"""A model's decoder blocks in training: compiled once for all of them, their activations kept, recomputed or moved."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from verlcli.engine.training.offload import offloaded_inputs

Recompute = Literal["none", "full", "selective", "offload"]
Run = Callable[..., Any]

# Costly operators, whose results `selective` keeps: matrix products and attention. All else is read and written once.
_KEPT_NAMES = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::linear",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "torch_attn::_varlen_attn",
    "flash_attn::_flash_attn_varlen_forward",
    "flash_attn_3::fwd",
)


class Blocks:
    """The blocks of `module`, which run plainly outside of `active()`.

    Args:
        module: any module with Hugging Face decoder layers inside.
        recompute: `full` keeps a block's inputs alone for the backward pass, `selective` also the results of matrix
            products and attention, `offload` the inputs in pinned host memory.
        compiled: compile the blocks; where there is no compiler they run as they are, and `on_notice` is told.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        recompute: Recompute = "none",
        compiled: bool = False,
        on_notice: Callable[[str], None] = warnings.warn,
    ) -> None:
        self._layers = decoder_layers(module)
        self._recompute = recompute
        if not self._layers and (recompute != "none" or compiled):
            on_notice("no decoder blocks found in this model: nothing is compiled or recomputed")
        if compiled and (missing := missing_for_compiling()):
            on_notice(f"training.compile needs {missing}: the model's blocks run uncompiled, more slowly")
            compiled = False
        self._runs: dict[type, Run] = {
            kind: self._make_run(kind, compiled=compiled) for kind in set(map(type, self._layers))
        }

    def _make_run(self, kind: type, *, compiled: bool) -> Run:
        plain: Run = kind.forward  # type: ignore[attr-defined]
        if (
            self._recompute == "selective"
        ):  # decided operator by operator, so that it must be inside of what is compiled
            again = partial(_checkpointed, plain, context_fn=partial(create_selective_checkpoint_contexts, _policy))
            return _choose(_compile(plain), _compile(again)) if compiled else _choose(plain, again)
        run = _compile(plain) if compiled else plain
        if self._recompute == "full":
            return _choose(run, partial(_checkpointed, run))
        return _choose(run, partial(_offloaded, run)) if self._recompute == "offload" else run

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within: the blocks run as this object says."""
        for layer in self._layers:
            layer.forward = partial(self._runs[type(layer)], layer)
        try:
            yield
        finally:
            for layer in self._layers:
                del layer.forward


def decoder_layers(module: nn.Module) -> list[nn.Module]:
    """The layers of a model that transformers itself could recompute: one list of them, in order."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [part for part in module.modules() if isinstance(part, GradientCheckpointingLayer)]


def _choose(plain: Run, again: Run) -> Run:
    """`again` where a backward pass follows."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return again(*args, **kwargs) if torch.is_grad_enabled() else plain(*args, **kwargs)

    return run


def _checkpointed(run: Run, *args: Any, context_fn: Any = None, **kwargs: Any) -> Any:
    more = {} if context_fn is None else {"context_fn": context_fn}
    return checkpoint(run, *args, use_reentrant=False, preserve_rng_state=False, **more, **kwargs)


def _offloaded(run: Run, *args: Any, **kwargs: Any) -> Any:
    with offloaded_inputs():
        return _checkpointed(run, *args, **kwargs)


def _policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    keep = operator.name().split(".")[0] in _KEPT_NAMES
    return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE


def _compile(run: Run) -> Run:
    """For any number of tokens; nothing of a layer but its weights' shapes is looked at, so that one compilation serves
    all layers of a kind."""
    compiled: Run = torch.compile(run, dynamic=True)
    return compiled


def missing_for_compiling() -> str:
    """What inductor does not find: triton and a C compiler for a GPU, a C++ compiler for a CPU; "" with all there."""
    gpu = torch.cuda.is_available()
    names = (os.environ.get("CC"), "gcc", "clang", "cc") if gpu else (os.environ.get("CXX"), "g++", "clang++", "c++")
    missing = (
        [] if any(name and shutil.which(name) for name in names) else ["a C compiler" if gpu else "a C++ compiler"]
    )
    if gpu and importlib.util.find_spec("triton") is None:
        missing.append("triton")
    return " and ".join(missing)
