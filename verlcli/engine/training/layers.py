"""How a model's layers run in training: by our own kernels from the start, compiled later where that pays."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Literal

from torch import nn

from verlcli.engine.training.blocks import Blocks, Recompute, missing_for_compiling

if TYPE_CHECKING:
    from verlcli.engine.fused import FusedLayers

PAYS_AFTER = 120.0  # seconds of updates to come: compiling takes about 10, and saves about a tenth of each update


class Layers:
    """The decoder layers of `module`, which run plainly outside of `active()`.

    Args:
        recompute: see `Blocks`.
        compiled: True: compile the blocks at once; False: never; "auto": on a GPU, at once where our own kernels do not
            cover the model's layers, else after the second update, when enough updates are left.
        updates: how many the run makes; None: many.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        recompute: Recompute = "none",
        compiled: bool | Literal["auto"] = False,
        updates: int | None = None,
        on_notice: Callable[[str], None] = warnings.warn,
    ) -> None:
        self._make = partial(Blocks, module, recompute=recompute, on_notice=on_notice)
        self._fused = fused_layers(module) if compiled is not True else None
        self._left, self._made, self._undecided = updates, 0, False
        self._before: tuple[Blocks, FusedLayers | None] | None = None
        if compiled == "auto":
            complete = self._fused is not None and self._fused.complete
            self._undecided = complete and not missing_for_compiling()
            compiled = next(module.parameters()).is_cuda and not complete
        self._blocks = self._make(compiled=compiled)
        if compiled and not missing_for_compiling():
            self._fused = None  # a compiler makes kernels of its own

    @contextmanager
    def active(self) -> Iterator[None]:
        """Within: the layers run as in training."""
        with self._blocks.active(), nullcontext() if self._fused is None else self._fused.active():
            yield

    def updated(self, seconds: float) -> None:
        """An update was made, which took that long. The first compiles our own kernels; the second tells how long the
        others will take, and so whether compiling the blocks pays."""
        self._made += 1
        if not self._undecided or self._made < 2:
            return
        self._undecided = False
        if self._left is None or (self._left - self._made) * seconds >= PAYS_AFTER:
            self._before = self._blocks, self._fused
            self._blocks, self._fused = self._make(compiled=True), None

    def step_back(self) -> bool:
        """Memory did not suffice: run by our own kernels again, which keep less of a forward pass; False where the
        layers do so already or never did."""
        if self._before is None:
            return False
        (self._blocks, self._fused), self._before = self._before, None
        return True


def fused_layers(module: nn.Module) -> FusedLayers | None:
    """Our own kernels for the layers of `module`; None where they do not run."""
    if not next(module.parameters()).is_cuda or importlib.util.find_spec("triton") is None:
        return None
    from verlcli.engine.fused import FusedLayers

    return FusedLayers(module)
