"""Fourth step of the data's road: which rows make up a step's batch."""

from __future__ import annotations

import numpy as np

from verlcli.errors import ConfigError


class PromptSampler:
    """Row numbers of a step as a pure function of the step, so that a resumed run draws what it would have drawn.

    Every epoch is a permutation of its own (by seed and epoch) when `shuffle`, else the rows' order; the rows left
    over at an epoch's end are dropped, as verl's loader does.

    Args:
        size: rows of the dataset.
        batch_size: rows a step.

    Raises:
        ConfigError: the dataset is smaller than one batch.
    """

    def __init__(self, size: int, batch_size: int, seed: int, shuffle: bool = True) -> None:
        if size == 0:
            raise ConfigError("the training data is empty: no rows", where="data", fix="give files that hold rows")
        if not 0 < batch_size <= size:
            raise ConfigError(
                f"a batch of {batch_size} prompts cannot be drawn from a dataset of {size} rows",
                where="data.train_batch_size",
                fix=f"set data.train_batch_size to a value from 1 to {size}, or give more data",
            )
        self._size = size
        self._batch_size = batch_size
        self._seed = seed
        self._shuffle = shuffle
        self._cached: tuple[int, list[int]] | None = None

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in one pass over the data."""
        return self._size // self._batch_size

    def batch(self, step: int) -> list[int]:
        """Row numbers of one step. `step` counts from 0."""
        epoch, position = divmod(step, self.steps_per_epoch)
        start = position * self._batch_size
        return self._order(epoch)[start : start + self._batch_size]

    def _order(self, epoch: int) -> list[int]:
        if self._cached is None or self._cached[0] != epoch:
            self._cached = (epoch, self._permutation(epoch) if self._shuffle else list(range(self._size)))
        return self._cached[1]

    def _permutation(self, epoch: int) -> list[int]:
        # A pair, not a sum: seed 1's first epoch must not be seed 0's second.
        generator = np.random.Generator(np.random.PCG64([self._seed % 2**64, epoch]))
        return [int(index) for index in generator.permutation(self._size)]
