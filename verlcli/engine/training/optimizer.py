"""AdamW on fp32 masters of whatever dtype the weights have, with gradients summed in fp32 and scaled for fp16."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    from verlcli.config.types import OptimConfig

FIRST_SCALE, GROWTH_STEPS = 2.0**16, 2000  # of the loss in fp16, as in torch.amp.GradScaler
_SCALE, _GOOD = "loss_scale.factor", "loss_scale.good_steps"


class Optimizer:
    """The trainable parameters of `module`, and what their updates need.

    A parameter in fp32, or in bf16 under `optim.master_dtype: bf16`, is its own master; others get one in fp32, and
    their gradients leave them for the master's as soon as they are complete. AdamW's eps and second moments vanish in
    fp16, so weights in it always have masters.

    Attributes:
        scale: factor of the loss before the backward pass; 1 but for fp16 weights.
    """

    def __init__(self, module: nn.Module, optim: OptimConfig) -> None:
        self._limit = optim.clip_grad or math.inf
        self._named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        pure = optim.master_dtype == "bf16"
        own = (torch.float32, torch.bfloat16) if pure else (torch.float32,)
        self._masters = {name: p if p.dtype in own else _master(p) for name, p in self._named.items()}
        for name in self._apart:
            self._named[name].register_post_accumulate_grad_hook(_collector(self._masters[name]))
        # One-dimensional parameters (norms, biases) are not decayed, as is usual.
        groups = [
            {"params": [p for p in self._masters.values() if p.dim() > 1], "weight_decay": optim.weight_decay},
            {"params": [p for p in self._masters.values() if p.dim() <= 1], "weight_decay": 0.0},
        ]
        self._adamw = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=optim.lr, betas=optim.betas, eps=optim.eps, fused=True
        )
        self._scales = any(p.dtype == torch.float16 for p in self._named.values())
        self.scale = FIRST_SCALE if self._scales else 1.0
        self._good_steps = 0

    @property
    def _apart(self) -> list[str]:
        """Names of the parameters that have a master."""
        return [name for name, p in self._named.items() if self._masters[name] is not p]

    def clear(self) -> None:
        """Forget all gradients."""
        for each in (self._named, self._masters):
            for p in each.values():
                p.grad = None

    def clip(self) -> Tensor:
        """Scale gradients back, limit their norm to `clip_grad`; returns the norm before, a scalar tensor."""
        if self._scales:
            gradients = [p.grad for p in self._masters.values() if p.grad is not None]
            if gradients:
                torch._foreach_mul_(gradients, 1 / self.scale)
        return nn.utils.clip_grad_norm_(list(self._masters.values()), self._limit)

    def lower_scale(self) -> bool:
        """After gradients that were not finite: halve the scale; False where that is no remedy."""
        if not self._scales or self.scale <= 1:
            return False
        self.scale /= 2
        self._good_steps = 0
        return True

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """AdamW's update of the masters, and their copies into the weights."""
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        if apart := self._apart:
            torch._foreach_copy_([self._named[n] for n in apart], [self._masters[n] for n in apart])
        self._good_steps += 1
        if self._scales and self._good_steps % GROWTH_STEPS == 0:
            self.scale *= 2

    @torch.no_grad()
    def read_weights(self) -> None:
        """Take the masters from the weights, which somebody else has written."""
        for name in self._apart:
            self._masters[name].copy_(self._named[name])

    def state(self) -> dict[str, Tensor]:
        """Moments and step counts `NAME.exp_avg`, `NAME.exp_avg_sq`, `NAME.step`, masters `NAME.master`, the scale."""
        state = {
            f"{name}.{key}": value
            for name, master in self._masters.items()
            for key, value in self._adamw.state.get(master, {}).items()
        }
        state |= {f"{name}.master": self._masters[name].detach() for name in self._apart}
        if self._scales:
            state |= {_SCALE: torch.tensor(self.scale), _GOOD: torch.tensor(self._good_steps)}
        return state

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Inverse of `state`; masters that it does not have are taken from the weights."""
        self.read_weights()
        for flat, value in state.items():
            name, _, key = flat.rpartition(".")
            if flat == _SCALE:
                self.scale = float(value)
            elif flat == _GOOD:
                self._good_steps = int(value)
            elif key == "master":
                self._masters[name].copy_(value)
            else:
                master = self._masters[name]
                self._adamw.state[master][key] = value.to(master.device, copy=True)


def _master(p: Tensor) -> nn.Parameter:
    return nn.Parameter(p.detach().to(torch.float32, copy=True))


def _collector(master: Tensor) -> Callable[[Tensor], None]:
    """A hook that moves a parameter's complete gradient onto the master's."""

    def collect(p: Tensor) -> None:
        assert p.grad is not None
        if master.grad is None:
            master.grad = p.grad.float()
        else:
            master.grad.add_(p.grad)
        p.grad = None

    return collect
