"""The batches that a step draws from a split."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import DataLoader

from hf_sysgen.data.text.splits import BatchedSplit


class Batches(Protocol):
    """
    The batches of one process: `parts` for each update, from update `first_step` on. `save` writes their state into a
    checkpoint, all processes at once into one folder, each under a name of its own; `load` reads it.
    """

    first_step: int

    def loader(self) -> Any:
        """An iterable of ready batches, for one use. Its length is that of the whole run."""

    def save(self, folder: Path) -> None:
        """Save the position after the last batch taken."""

    def load(self, folder: Path) -> None:
        """Continue from the saved position, the start of update `first_step`."""


class OnGpu:
    """
    The batches of a loader on a GPU. The Trainer's own copy waits until the GPU has done all that it was given, and
    until the copy ends the CPU prepares nothing; these copies wait for nothing.
    """

    def __init__(self, loader: Any, device: torch.device):
        self.loader, self.device = loader, device

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        for batch in self.loader:
            yield {name: tensor.pin_memory().to(self.device, non_blocking=True) for name, tensor in batch.items()}


class StepBatches:
    """
    The rows of every update, as a function of seed and update number alone: a resumed run draws what it would have
    drawn, and several processes share one batch.

    Iterating yields the parts of one process: `parts` for each update, from update `first_step` on.
    With `length_buckets`, an update's rows are sorted by length and split into buckets * world parts of equal size.
    Neighbouring parts go to different processes, so that all processes have about the same padding. If an epoch's last
    batch has fewer rows than parts, some parts are empty: for these, [`BatchedSplit`] makes a batch without labels,
    which does not change the update.

    Args:
        split: what to draw from.
        batch_size: rows of an update, over all parts and processes.
        steps: number of updates of the whole run.
        seed, sampling, length_buckets: as in a recipe.
        rank, world: this process and how many there are.

    Raises:
        ValueError: the batch is not a multiple of the number of parts over all processes.
    """

    def __init__(
        self,
        split: BatchedSplit,
        batch_size: int,
        steps: int,
        seed: int,
        sampling: str = "with_replacement",
        length_buckets: int = 1,
        rank: int = 0,
        world: int = 1,
    ):
        if batch_size % (length_buckets * world):
            raise ValueError(
                f"batches.size={batch_size} is not a multiple of batches.length_buckets={length_buckets} x "
                f"processes={world}"
            )
        if sampling == "epochs" and len(split) < batch_size:
            raise ValueError(f"batches.size={batch_size} is more than the {len(split)} training examples of an epoch")
        self.split, self.batch_size, self.steps, self.seed = split, batch_size, steps, seed
        self.sampling, self.parts, self.rank, self.world = sampling, length_buckets, rank, world
        self.first_step = 0
        self._epoch: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    @property
    def updates_per_epoch(self) -> int:
        return -(-len(self.split) // self.batch_size)

    def rows(self, step: int) -> np.ndarray:
        """The rows of update `step`, over all processes, in the order drawn."""
        total = len(self.split)
        if self.sampling == "with_replacement":
            return np.random.default_rng((self.seed, step)).integers(total, size=self.batch_size)
        epoch, index = divmod(step, self.updates_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, np.random.default_rng((self.seed, epoch)).permutation(total))
        return self._epoch[1][index * self.batch_size : (index + 1) * self.batch_size]

    def micro_batches(self, step: int) -> list[np.ndarray]:
        """The rows of update `step` cut into parts * world pieces; each process takes every world-th."""
        rows = self.rows(step)
        if self.parts > 1:
            rows = self.split.by_length(rows)
        return np.array_split(rows, self.parts * self.world)

    def __len__(self) -> int:
        return self.steps * self.parts

    def __iter__(self) -> Iterator[np.ndarray]:
        for step in range(self.first_step, self.steps):
            yield from self.micro_batches(step)[self.rank :: self.world]

    def save(self, folder: Path) -> None:
        """Nothing: batches are a function of the update."""

    load = save

    def loader(self) -> DataLoader:
        """
        A loader of ready batches. It has its own generator, because a resumed run must find the global one unchanged.
        """
        return DataLoader(self.split, sampler=self, batch_size=None, generator=torch.Generator())


class MaxTokensBatches(StepBatches):
    """
    Identical to [`StepBatches`] except:

    - batches are those of fairseq 0.10.2: packed once, of examples of similar length, up to `max_tokens`; every epoch
      takes each of them once, in another order (iterators.py:393-415, seeded by seed + epoch, epochs counted from 1).
    - with `resample`, the batches are made of so many examples drawn with replacement, once for all epochs.
    - an update takes the next `batches_per_update` of them, as fairseq does on that many GPUs (or GPUs times
      update_freq); where an epoch's last update has fewer, some parts are empty.
    - where the number of processes does not divide `batches_per_update`, each batch is cut into equal pieces, so that
      all processes get as many.

    Args:
        split, steps, seed, rank, world: as there.
        max_tokens, batches_per_update, resample: as `max_tokens`, `per_update`, `resample` in a recipe.

    Raises:
        ValueError: an example is longer than `max_tokens`.
    """

    def __init__(
        self,
        split: BatchedSplit,
        max_tokens: int,
        steps: int,
        seed: int,
        batches_per_update: int = 1,
        rank: int = 0,
        world: int = 1,
        resample: int | None = None,
    ):
        self.split, self.steps, self.seed, self.rank, self.world = split, steps, seed, rank, world
        self.batches_per_update, self.first_step = batches_per_update, 0
        self.parts = parts_of_max_tokens(batches_per_update, world)
        rows = np.arange(len(split))
        if resample is not None:
            rows = np.random.default_rng((seed, resample)).integers(len(split), size=resample)
        sources, targets = split.source_target_lengths()
        self.batches = [rows[batch] for batch in pack(sources[rows], targets[rows], max_tokens, seed)]
        self._epoch = (-1, np.empty(0, np.int64))

    @property
    def updates_per_epoch(self) -> int:
        return -(-len(self.batches) // self.batches_per_update)

    def batches_of(self, step: int) -> list[np.ndarray]:
        """The batches of update `step`, at most `batches_per_update`."""
        epoch, index = divmod(step, self.updates_per_epoch)
        if self._epoch[0] != epoch:
            order = np.arange(len(self.batches))
            np.random.RandomState((self.seed + epoch + 1) % 2**32).shuffle(order)
            self._epoch = (epoch, order)
        start = index * self.batches_per_update
        return [self.batches[at] for at in self._epoch[1][start : start + self.batches_per_update]]

    def rows(self, step: int) -> np.ndarray:
        return np.concatenate(self.batches_of(step))

    def micro_batches(self, step: int) -> list[np.ndarray]:
        batches = self.batches_of(step)
        batches += [np.empty(0, np.int64)] * (self.batches_per_update - len(batches))
        count = self.parts * self.world // self.batches_per_update
        return [piece for batch in batches for piece in np.array_split(batch, count)]


def parts_of_max_tokens(batches_per_update: int, world: int) -> int:
    """Parts of an update that each of `world` processes works through, so that all have as many."""
    return math.lcm(batches_per_update, world) // world


def pack(
    source_lengths: np.ndarray, target_lengths: np.ndarray, max_tokens: int, seed: int, multiple: int = 8
) -> list[np.ndarray]:
    """
    The batches of fairseq 0.10.2, row by row the same: examples are shuffled, stably sorted by target length and then
    by source length (so that the source's decides), and put together until another one would make the number of
    examples times the longest side of all of them more than `max_tokens`. The last examples of a full batch are carried
    over, so that its size is a multiple of `multiple` (language_pair_dataset.py:419-430, data_utils_fast.pyx:28-69).
    What is carried over is not counted again: where the next example is much longer, a batch of up to `multiple`
    examples has more than `max_tokens`.

    Args:
        source_lengths, target_lengths: tokens of each example, end symbols included (N,).
        max_tokens: of a padded batch on its longer side.
        seed: of the shuffle of examples of equal lengths.
        multiple: fairseq's `--required-batch-size-multiple`.

    Returns:
        the rows of each batch.

    Raises:
        ValueError: an example is longer than `max_tokens`.
    """
    order = np.random.RandomState(seed).permutation(len(source_lengths))
    order = order[np.lexsort((target_lengths[order], source_lengths[order]))]
    lengths = np.maximum(source_lengths, target_lengths)
    if (lengths > max_tokens).any():
        row = int(lengths.argmax())
        raise ValueError(
            f"batches.max_tokens={max_tokens} is less than the {lengths[row]} tokens of training example {row}"
        )
    batches, sorted_lengths = [], lengths[order].tolist()
    start, longest = 0, 0
    for end, length in enumerate(sorted_lengths):
        longest, size = max(longest, length), end - start
        if size and (size + 1) * longest > max_tokens:
            kept = max(size // multiple * multiple, size % multiple)
            batches.append(order[start : start + kept])
            start += kept
            longest = max(sorted_lengths[start : end + 1])
    batches.append(order[start:])
    return batches
