"""Training engine `torch`: one process, CPU or one GPU, AdamW on fp32 parameters with autocast to the planned dtype."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from verlcli.engine.algorithms import entropy_of, logprobs_of
from verlcli.engine.batch import Batch
from verlcli.engine.training._base import LossFn, ShardingInfo, UpdateResult

if TYPE_CHECKING:
    from verlcli.config.types import OptimConfig

Forward = Callable[[Batch], Any]


class TorchEngine:
    """One module, its optimizer, and the forward pass that its role needs.

    Args:
        module: on its device; only parameters with `requires_grad` are trained.
        forward: from a batch to what the role's loss function takes.
        optim: None for a model that is never updated.
        autocast_dtype: dtype of the arithmetic on CUDA; None runs in the parameters' own.
        recompute: recompute activations in the backward pass.
    """

    def __init__(
        self,
        module: nn.Module,
        forward: Forward,
        *,
        optim: OptimConfig | None,
        autocast_dtype: torch.dtype | None = None,
        recompute: bool = False,
    ) -> None:
        self.module = module
        self._forward = forward
        self._optim = optim
        self._autocast_dtype = autocast_dtype
        self._recompute = recompute
        self.phase = "training"
        disable_dropout(module)
        if recompute:
            _enable_recompute(module)
        self.optimizer = None if optim is None else _build_optimizer(module, optim)

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def autocast(self) -> AbstractContextManager[Any]:
        """Context in which the module's arithmetic runs."""
        if self._autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self._autocast_dtype)

    @torch.no_grad()
    def infer(self, micro_batches: list[Batch], *, width: int) -> Any:
        """The role's forward pass without gradients, `[B, width]` over all micro batches (padding 0)."""
        self.module.eval()
        rows = []
        for micro in micro_batches:
            with self.autocast():
                out = self._forward(micro)
            out = out[0] if isinstance(out, tuple) else out
            out = out.float().masked_fill(~micro.response_mask, 0.0)
            rows.append(nn.functional.pad(out, (0, width - out.shape[1])))
        return torch.cat(rows)

    def update(self, micro_batches: list[Batch], loss_fn: LossFn, *, lr: float) -> UpdateResult:
        """One optimizer step; see `TrainingEngine.update`. Not taken when loss or gradient is not finite."""
        if self.optimizer is None or self._optim is None:
            raise RuntimeError("this engine was built without an optimizer")
        self.module.train(self._recompute)  # recomputation hooks only act in train mode; dropout is 0 in both
        self.optimizer.zero_grad(set_to_none=True)
        losses, sums = list[Tensor](), dict[str, Tensor]()
        for micro in micro_batches:
            with self.autocast():
                out = self._forward(micro)
            loss, parts = loss_fn(out, micro)
            loss.backward()
            losses.append(loss.detach())
            for name, value in parts.items():
                sums[name] = sums[name] + value if name in sums else value
        self.module.eval()
        trainable = [p for p in self.module.parameters() if p.requires_grad]
        limit = self._optim.clip_grad or math.inf
        total = torch.stack(losses).sum().item()
        stats = {name: float(value.item()) for name, value in sums.items()}
        grad_norm = nn.utils.clip_grad_norm_(trainable, limit).item()
        applied = math.isfinite(total) and math.isfinite(grad_norm)
        if applied:
            for group in self.optimizer.param_groups:
                group["lr"] = lr
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return UpdateResult(total, grad_norm, applied, stats)

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

    def optimizer_state(self) -> dict[str, Tensor]:
        """AdamW's moments and step counts as `NAME.exp_avg`, `NAME.exp_avg_sq`, `NAME.step`."""
        assert self.optimizer is not None
        return {
            f"{name}.{key}": value
            for name, p in self.module.named_parameters()
            for key, value in self.optimizer.state.get(p, {}).items()
        }

    def load_optimizer_state(self, state: dict[str, Tensor]) -> None:
        """Inverse of `optimizer_state`."""
        assert self.optimizer is not None
        parameters = dict(self.module.named_parameters())
        for flat, value in state.items():
            name, _, key = flat.rpartition(".")
            p = parameters[name]
            # AdamW keeps its step count on the CPU unless fused.
            device = p.device if key != "step" or p.device.type == "cuda" else torch.device("cpu")
            self.optimizer.state[p][key] = value.to(device, copy=True)


def policy_forward(module: nn.Module, temperature: float, *, entropy_gradient: bool = False) -> Forward:
    """Forward pass of a policy: batch -> (logprobs `[B, R]`, entropy `[B, R]`) of the response at `temperature`.

    Passes without gradients want log-probs alone, so their entropy is None.
    The entropy carries a gradient only if asked to (entropy bonus): it costs as much memory as the log-probs.
    """

    def forward(batch: Batch) -> tuple[Tensor, Tensor | None]:
        width = batch.response_width
        logits = module(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            position_ids=batch.position_ids,
            logits_to_keep=width + 1,
            use_cache=False,
        ).logits[:, -width - 1 : -1]
        logprobs = logprobs_of(logits, batch.responses, temperature=temperature)
        if not torch.is_grad_enabled():
            return logprobs, None
        with torch.set_grad_enabled(entropy_gradient):
            return logprobs, entropy_of(logits, temperature=temperature)

    return forward


def value_forward(module: nn.Module) -> Forward:
    """Forward pass of a critic: batch -> values `[B, R]` of the states before each response token."""

    def forward(batch: Batch) -> Tensor:
        values: Tensor = module(batch.input_ids, batch.attention_mask, batch.position_ids)
        return values[:, -batch.response_width - 1 : -1]

    return forward


def disable_dropout(module: nn.Module) -> None:
    """Set every dropout to 0: the policy that is trained must be the one that generated."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        elif isinstance(getattr(part, "attention_dropout", None), float):
            part.attention_dropout = 0.0  # type: ignore[assignment]


def _enable_recompute(module: nn.Module) -> None:
    for part in module.modules():
        enable = getattr(part, "gradient_checkpointing_enable", None)
        if enable is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # renamed in newer transformers; this name works in all
                enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            return


def _build_optimizer(module: nn.Module, optim: OptimConfig) -> torch.optim.Optimizer:
    trainable = [p for p in module.parameters() if p.requires_grad]
    # One-dimensional parameters (norms, biases) are not decayed, as is usual.
    groups = [
        {"params": [p for p in trainable if p.dim() > 1], "weight_decay": optim.weight_decay},
        {"params": [p for p in trainable if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    fused = trainable[0].device.type == "cuda"
    return torch.optim.AdamW(groups, lr=optim.lr, betas=optim.betas, eps=optim.eps, fused=fused)
