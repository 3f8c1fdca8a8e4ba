"""A split as token ids, indexed by whole batches."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import Dataset

# the label of ignored positions, as everywhere in torch and transformers
IGNORED = -100


class RaggedIds:
    """Sequences of token ids in one flat array, padded on demand."""

    def __init__(self, sequences: Sequence[Sequence[int]]):
        self.lengths = np.fromiter((len(ids) for ids in sequences), np.int64, len(sequences))
        self.starts = np.concatenate(([0], np.cumsum(self.lengths)))[:-1]
        self.flat = np.fromiter((i for ids in sequences for i in ids), np.int64, int(self.lengths.sum()))

    def take(self, rows: np.ndarray) -> RaggedIds:
        """The sequences of these rows."""
        ends = self.starts + self.lengths
        return RaggedIds(
            [self.flat[start:end].tolist() for start, end in zip(self.starts[rows], ends[rows], strict=True)]
        )

    def padded(self, rows: np.ndarray, value: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Those rows padded on the right with `value`: ids (B, longest), and a boolean mask of real tokens (B,
        longest)."""
        lengths = self.lengths[rows]
        columns = np.arange(lengths.max(initial=0))
        real = columns < lengths[:, None]
        ids = np.full(real.shape, value, np.int64)
        ids[real] = self.flat[(self.starts[rows][:, None] + columns)[real]]
        return torch.from_numpy(ids), torch.from_numpy(real)


class BatchedSplit(Dataset, ABC):
    """A split of a benchmark as a model reads it, indexed by whole batches."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def by_length(self, rows: np.ndarray) -> np.ndarray:
        """The rows, sorted so that neighbours need about equally much padding."""

    @abstractmethod
    def source_target_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Tokens (or nodes) of each example's source and of its target, (N,) each."""

    @abstractmethod
    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """The model's inputs for at least one example, and `labels`, -100 where there is nothing to learn."""

    def __getitem__(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """The batch of those rows; for no rows the first example without labels, whose summed loss is zero."""
        rows = np.atleast_1d(rows)
        if len(rows):
            return self.batch(rows)
        first = self.batch(np.zeros(1, np.int64))
        return {key: torch.full_like(ids, IGNORED) if key.endswith("labels") else ids for key, ids in first.items()}


class TokenizedSplit(BatchedSplit):
    """
    A split of texts as token ids.

    Args:
        sources: `<s> words </s>` ids of every example, or `words </s>`; targets: `words </s>` ids.
        pad_id: fills short sources; attention masks tell padding, not this id.
        train_eos: whether the EOS of a target is a label.
    """

    def __init__(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], pad_id: int, train_eos: bool = True
    ):
        self.sources, self.targets = RaggedIds(sources), RaggedIds(targets)
        self.pad_id, self.train_eos = pad_id, train_eos

    def __len__(self) -> int:
        return len(self.sources.lengths)

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """`input_ids` and `attention_mask` (B, S), `labels` (B, T) with -100 after the target."""
        input_ids, mask = self.sources.padded(rows, self.pad_id)
        labels, _ = self.targets.padded(rows, IGNORED)
        if not self.train_eos:
            labels[torch.arange(len(rows)), torch.from_numpy(self.targets.lengths[rows]) - 1] = IGNORED
        return {"input_ids": input_ids, "attention_mask": mask.long(), "labels": labels}

    def take(self, rows: np.ndarray) -> TokenizedSplit:
        """A split with only those examples."""
        other = copy.copy(self)
        other.sources, other.targets = self.sources.take(rows), self.targets.take(rows)
        return other

    def by_length(self, rows: np.ndarray) -> np.ndarray:
        """The rows, sorted by target length, then source length."""
        return rows[np.lexsort((self.sources.lengths[rows], self.targets.lengths[rows]))]

    def source_target_lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of tokens of each source and of each target, (N,) each."""
        return self.sources.lengths, self.targets.lengths
