"""What is said about supervised fine-tuning: its keys are checked, its numbers are not."""

from __future__ import annotations

from collections.abc import Iterator

from verlcli.config.context import NotKnown
from verlcli.config.rules._base import Verdict
from verlcli.config.verl.rules._base import VerlRule, rule
from verlcli.config.verl.run import VerlRun


@rule(entries=("sft", "sft_legacy"))
def numbers_of_sft_are_unchecked(run: VerlRun) -> Iterator[Verdict]:
    """VRL280: what the numbers of a fine-tuning launch come to is not checked.

    Why: each key of SFT is checked by itself. Whether the batch divides over the GPUs, parallel sizes fit together and
        the model fits into memory is checked for RL only, so a launch without problems may still stop at its start.
    Example: torchrun -m verl.trainer.sft_trainer data.train_batch_size=100, on 8 GPUs
    Instead: nothing to change; data.train_batch_size has to divide by the data-parallel ranks
    Source: verl/trainer/sft_trainer.py
    """
    yield from ()
    raise NotKnown("rules about batch, parallel sizes and memory of SFT, whose keys alone are checked")


RULES: tuple[VerlRule, ...] = (numbers_of_sft_are_unchecked,)
