"""Rules about the number of steps."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.rules._base import Verdict
from verlcli.config.types import Config


def warmup_ends(config: Config) -> Iterator[Verdict]:
    """VRL140: the warm-up fills the whole run.

    Why: the learning rate rises until warmup_steps; a run that ends there never trains at its learning rate for
        more than a step.
    Example: `trainer: {total_steps: 100}` with `actor: {optim: {warmup_steps: 100}}`
    Instead: a warm-up of some 3 to 10 % of the steps
    """
    total = config.trainer.total_steps
    optims = {"actor": config.actor.optim}
    if config.algorithm.name == "ppo":
        optims["critic"] = config.critic.optim
    for name, optim in optims.items():
        steps = optim.warmup_steps
        if steps >= total:
            yield Verdict(
                "VRL140",
                (f"{name}.optim.warmup_steps", "trainer.total_steps"),
                f"the warm-up of {steps} steps fills the whole run of {total}",
                "lower it, or raise trainer.total_steps",
                "warning",
            )
