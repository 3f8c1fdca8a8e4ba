"""The batches that a step draws from a split."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader

from hf_sysgen.data.tokenized import TokenizedSplit


class StepBatches:
    """
    The rows of every update, as a function of seed and update number alone: a resumed run draws what it would have
    drawn, and several processes share one batch.

    Iterating yields the parts that one process works through: `parts` of them for every update from `first_step` on.
    Under `length_groups` an update's rows are sorted by length and cut into groups * world parts of equal size, of
    which neighbours go to different processes, so that all pad alike. Where an epoch's last batch has fewer rows than
    parts, some parts are empty: of no rows [`TokenizedSplit`] makes a batch without labels, which adds nothing.

    Args:
        split: what to draw from.
        batch_size: rows of an update, over all parts and processes.
        steps: number of updates of the whole run.
        seed, sampling, length_groups: as in a recipe.
        rank, world: this process and how many there are.

    Raises:
        ValueError: the batch is not a multiple of the number of parts over all processes.
    """

    def __init__(
        self,
        split: TokenizedSplit,
        batch_size: int,
        steps: int,
        seed: int,
        sampling: str = "with_replacement",
        length_groups: int = 1,
        rank: int = 0,
        world: int = 1,
    ):
        if batch_size % (length_groups * world):
            raise ValueError(
                f"batch_size={batch_size} is not a multiple of length_groups={length_groups} x processes={world}"
            )
        if sampling == "epochs" and len(split) < batch_size:
            raise ValueError(f"batch_size={batch_size} is more than the {len(split)} training examples of an epoch")
        self.split, self.batch_size, self.steps, self.seed = split, batch_size, steps, seed
        self.sampling, self.parts, self.rank, self.world = sampling, length_groups, rank, world
        self.first_step = 0
        self._epoch: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    def rows(self, step: int) -> np.ndarray:
        """The rows of update `step`, over all processes, in the order drawn."""
        total = len(self.split)
        if self.sampling == "with_replacement":
            return np.random.default_rng((self.seed, step)).integers(total, size=self.batch_size)
        epoch, index = divmod(step, -(-total // self.batch_size))
        if self._epoch[0] != epoch:
            self._epoch = (epoch, np.random.default_rng((self.seed, epoch)).permutation(total))
        return self._epoch[1][index * self.batch_size : (index + 1) * self.batch_size]

    def __len__(self) -> int:
        return self.steps * self.parts

    def __iter__(self) -> Iterator[np.ndarray]:
        for step in range(self.first_step, self.steps):
            rows = self.rows(step)
            if self.parts > 1:
                rows = self.split.by_length(rows)
            pieces = np.array_split(rows, self.parts * self.world)
            yield from pieces[self.rank :: self.world]

    def loader(self) -> DataLoader:
        """A loader of ready batches. Its generator is its own: the global one must stay as a resumed run finds it."""
        return DataLoader(self.split, sampler=self, batch_size=None, generator=torch.Generator())
