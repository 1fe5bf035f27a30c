"""Training engine `torch`: one process, CPU or one GPU; packed batches, fused layers, AdamW on fp32 masters."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from verlcli.engine.attention import attention
from verlcli.engine.batch import Batch
from verlcli.engine.models import hugging_face
from verlcli.engine.packing import Cost, MicroBatches, by_tokens, pack
from verlcli.engine.training._base import LossFn, ShardingInfo, UpdateResult
from verlcli.engine.training.blocks import Recompute
from verlcli.engine.training.forwards import Forward
from verlcli.engine.training.layers import Layers
from verlcli.engine.training.optimizer import Optimizer
from verlcli.engine.training.support import why_not_packed
from verlcli.errors import DoesNotFitError

if TYPE_CHECKING:
    from verlcli.config.types import OptimConfig

Result = TypeVar("Result")


class TorchEngine:
    """One module, its optimizer, and the forward pass that its role needs.

    Args:
        module: on its device, in the dtype of its arithmetic; only parameters with `requires_grad` are trained.
        forward: from a batch to what the role's loss function takes.
        optim: None for a model that is never updated.
        recompute, compiled, updates: see `Layers`.
        tokens: of a micro batch that `plan_micro_batches` makes; None: `sequences` decides.
        sequences: of a micro batch, where their number is fixed or the model cannot run packed.
        on_notice: is told what the user should know, such as a slower path that was taken.
    """

    def __init__(
        self,
        module: nn.Module,
        forward: Forward,
        *,
        optim: OptimConfig | None,
        recompute: Recompute = "none",
        compiled: bool | Literal["auto"] = False,
        updates: int | None = None,
        tokens: int | None = None,
        sequences: int | None = None,
        on_notice: Callable[[str], None] = warnings.warn,
    ) -> None:
        self.module = module
        self.phase = "training"
        self._forward = forward
        self._tokens, self._sequences = tokens, sequences
        self._on_notice = on_notice
        disable_dropout(module)
        module.eval()
        self._layers = Layers(module, recompute=recompute, compiled=compiled, updates=updates, on_notice=on_notice)
        self.optimizer = None if optim is None else Optimizer(module, optim)
        reason = why_not_packed(module, forward)
        self.packed = reason is None
        if reason is not None:
            on_notice(f"this model trains on padded batches, more slowly than on packed ones: {reason}")

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def plan_micro_batches(self, batch: Batch) -> MicroBatches:
        """Cut `batch` into the micro batches of one pass: by tokens, of equal work, or by a number of sequences."""
        if self.packed and self._tokens is not None:
            return by_tokens(batch, self._tokens, self._cost())
        return MicroBatches(batch.split(self._sequences or len(batch)))

    def _cost(self) -> Cost:
        model: Any = hugging_face(getattr(self.module, "language_model", self.module))
        return Cost.of_model(model.config.get_text_config())

    @torch.no_grad()
    def infer(self, micro_batches: Sequence[Batch], *, width: int) -> Tensor:
        """The role's forward pass without gradients, `[B, width]` over all micro batches (padding 0).

        Raises:
            DoesNotFitError: half of each micro batch does not fit into memory either.
        """

        def run(parts: Sequence[Batch]) -> Tensor:
            rows = []
            with self._ready():
                for batch, packed in zip(parts, self._pack(parts), strict=True):
                    out = self._forward(batch, packed)
                    out = out[0] if isinstance(out, tuple) else out
                    out = out.float().masked_fill(~batch.response_mask, 0.0)
                    rows.append(nn.functional.pad(out, (0, width - out.shape[1])))
            return torch.cat(rows)

        out, _ = self._with_room(run, micro_batches)
        return micro_batches.restore(out) if isinstance(micro_batches, MicroBatches) else out

    def update(self, micro_batches: Sequence[Batch], loss_fn: LossFn, *, lr: float) -> UpdateResult:
        """One optimizer step; see `TrainingEngine.update`. Not taken when loss or gradient is not finite.

        Raises:
            DoesNotFitError: half of each micro batch does not fit into memory either.
        """
        if self.optimizer is None:
            raise RuntimeError("this engine was built without an optimizer")
        started, optimizer, parts = time.perf_counter(), self.optimizer, micro_batches
        scale = optimizer.scale
        while True:
            (loss, stats), parts = self._with_room(lambda parts: self._accumulate(optimizer, parts, loss_fn), parts)
            grad_norm = optimizer.clip().item()
            finite = math.isfinite(grad_norm)
            # In fp16 gradients may overflow, not the loss: the same step with a smaller factor then goes well.
            if finite or not math.isfinite(loss) or not optimizer.lower_scale():
                break
        applied = finite and math.isfinite(loss)
        if applied:
            optimizer.step(lr)
        else:
            optimizer.scale = scale  # no smaller one helped
        optimizer.clear()
        self._layers.updated(time.perf_counter() - started)
        return UpdateResult(loss, grad_norm, applied, stats)

    def _accumulate(
        self, optimizer: Optimizer, micro_batches: Sequence[Batch], loss_fn: LossFn
    ) -> tuple[float, dict[str, float]]:
        """Gradients of all micro batches; returns (loss, stats) of the mini batch."""
        optimizer.clear()
        losses, sums = list[Tensor](), dict[str, Tensor]()
        with self._ready():
            for batch, packed in zip(micro_batches, self._pack(micro_batches), strict=True):
                loss, parts = loss_fn(self._forward(batch, packed), batch)
                (loss * optimizer.scale if optimizer.scale != 1 else loss).backward()
                losses.append(loss.detach())
                for name, value in parts.items():
                    sums[name] = sums[name] + value if name in sums else value
        names = list(sums)
        numbers = torch.stack([torch.stack(losses).sum().double(), *(sums[n].double() for n in names)]).tolist()
        return numbers[0], dict(zip(names, numbers[1:], strict=True))

    @contextmanager
    def _ready(self) -> Iterator[None]:
        """Within: the module runs as in training."""
        with ExitStack() as stack:
            stack.enter_context(self._layers.active())
            if self.packed:
                stack.enter_context(attention(self.module))
            yield

    def _pack(self, micro_batches: Sequence[Batch]) -> list[Any]:
        """All before the first pass: each waits for the device, which then has nothing else to do."""
        return [pack(batch) if self.packed else None for batch in micro_batches]

    def _with_room(
        self, run: Callable[[Sequence[Batch]], Result], micro_batches: Sequence[Batch]
    ) -> tuple[Result, Sequence[Batch]]:
        """`run`, and the micro batches that it went well with.

        Where the memory does not suffice, it runs once more with micro batches of half the size, which then stay.
        """
        try:
            return run(micro_batches), micro_batches
        except torch.OutOfMemoryError as error:
            first = str(error).splitlines()[0]
        # Outside of `except`, whose traceback would keep the failed pass's tensors alive.
        self._free()
        if self._layers.step_back():
            self._on_notice(f"out of memory, so the model's blocks are no longer compiled ({first})")
            return self._with_room(run, micro_batches)
        halves = [half for batch in micro_batches for half in batch.halves()]
        if len(halves) > len(micro_batches):
            self._halve_limits(micro_batches)
            self._on_notice(f"out of memory, so micro batches are half as large from here on ({first})")
            try:
                return run(halves), halves
            except torch.OutOfMemoryError as error:
                first = str(error).splitlines()[0]
            self._free()
        raise DoesNotFitError(
            f"out of memory, with micro batches of half the size too: {first}"
            if len(halves) > len(micro_batches)
            else f"out of memory with one sequence at a time: {first}",
            where="training",
            fix="lower training.max_token_len_per_gpu or training.ppo_micro_batch_size_per_gpu, "
            "set training.recompute: full, shorten data.max_response_length, or use LoRA (model.lora_rank)",
        )

    def _halve_limits(self, micro_batches: Sequence[Batch]) -> None:
        if self._tokens is not None:
            self._tokens = max(1, self._tokens // 2)
        self._sequences = max(1, max(map(len, micro_batches)) // 2)

    def _free(self) -> None:
        if self.optimizer is not None:
            self.optimizer.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def get_sharding_info(self) -> ShardingInfo:
        """Layout of the weights: one process holds all, and generation uses the same storage."""
        parameters = list(self.module.parameters())
        return ShardingInfo(
            phase=self.phase,
            engine="torch",
            world_size=1,
            device_map=(str(self.device),),
            placement="replicated",
            parameters=sum(p.numel() for p in parameters),
            trainable_parameters=sum(p.numel() for p in parameters if p.requires_grad),
            bytes_per_rank=sum(p.numel() * p.element_size() for p in parameters),
            last_transition_bytes=0,
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Trainable parameters by name, on their device."""
        return {name: p.detach() for name, p in self.module.named_parameters() if p.requires_grad}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Copy parameters in place, so that whoever shares the storage sees them."""
        own = self.state_dict()
        if own.keys() != state.keys():
            raise ValueError(f"parameters differ: {sorted(own.keys() ^ state.keys())[:4]}")
        for name, value in own.items():
            value.copy_(state[name])
        if self.optimizer is not None:
            self.optimizer.read_weights()

    def optimizer_state(self) -> dict[str, Tensor]:
        """AdamW's moments and step counts, and the masters; see `Optimizer.state`."""
        assert self.optimizer is not None
        return self.optimizer.state()

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """Inverse of `optimizer_state`."""
        assert self.optimizer is not None
        self.optimizer.load(state)


def disable_dropout(module: nn.Module) -> None:
    """Set every dropout to 0: the policy that is trained must be the one that generated."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        elif isinstance(getattr(part, "attention_dropout", None), float):
            part.attention_dropout = 0.0  # type: ignore[assignment]
