"""Tokenized splits, and the batches that a step draws from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class RaggedIds:
    """Sequences of token ids in one flat array, padded on demand."""

    def __init__(self, sequences: Sequence[Sequence[int]]):
        self.lengths = np.fromiter((len(ids) for ids in sequences), np.int64, len(sequences))
        self.starts = np.concatenate(([0], np.cumsum(self.lengths)))[:-1]
        self.flat = np.fromiter((i for ids in sequences for i in ids), np.int64, int(self.lengths.sum()))

    def padded(self, rows: np.ndarray, value: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Those rows padded on the right with `value`: ids (B, longest) and which are real, boolean (B, longest)."""
        lengths = self.lengths[rows]
        columns = np.arange(lengths.max(initial=0))
        real = columns < lengths[:, None]
        ids = np.full(real.shape, value, np.int64)
        ids[real] = self.flat[(self.starts[rows][:, None] + columns)[real]]
        return torch.from_numpy(ids), torch.from_numpy(real)


class TokenizedSplit(Dataset):
    """
    A split of a benchmark as token ids, indexed by whole batches.

    Args:
        sources: `<s> words </s>` ids of every example; targets: `words </s>` ids.
        pad_id: what fills short sources; attention masks tell, not this id.
        train_eos: whether the EOS of a target is a label.
    """

    def __init__(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_id: int, train_eos: bool = True
    ):
        self.sources, self.targets = RaggedIds(sources), RaggedIds(targets)
        self.pad_id, self.train_eos = pad_id, train_eos

    def __len__(self) -> int:
        return len(self.sources.lengths)

    def __getitem__(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """
        The batch of those rows: `input_ids` and `attention_mask` (B, S), `labels` (B, T) with -100 beyond the target.
        """
        rows = np.atleast_1d(rows)
        input_ids, mask = self.sources.padded(rows, self.pad_id)
        labels, _ = self.targets.padded(rows, -100)
        if not self.train_eos:
            labels[torch.arange(len(rows)), torch.from_numpy(self.targets.lengths[rows]) - 1] = -100
        return {"input_ids": input_ids, "attention_mask": mask.long(), "labels": labels}

    def by_length(self, rows: np.ndarray) -> np.ndarray:
        """The rows, sorted by target length, then source length."""
        return rows[np.lexsort((self.sources.lengths[rows], self.targets.lengths[rows]))]


class StepBatches:
    """
    The rows of every update, as a function of seed and update number alone: a resumed run draws what it would have
    drawn, and several processes share one batch.

    Iterating yields the parts that one process works through: `parts` of them for every update from `first_step` on.
    Under `length_groups` an update's rows are sorted by length and cut into groups * world parts of equal size, of
    which neighbours go to different processes, so that all pad alike.

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
        # an epoch's last batch is smaller, down to one row for every part
        smallest = self.parts * self.world
        full, rest = divmod(total, self.batch_size)
        epoch, index = divmod(step, full + (rest >= smallest))
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
