"""Pack documents into blocks of equally many tokens, to pretrain language models."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import torch
from torch.utils.data import IterableDataset

if TYPE_CHECKING:
    import datasets
    from transformers import PreTrainedTokenizerBase


class Place(TypedDict):
    """Where a stream is: the state of its documents, and the tokens of them that are in no block yet."""

    documents: dict[str, Any]
    pending: Sequence[int] | np.ndarray


class PackedTokens(IterableDataset):
    """Tokens of a stream of documents, an EOS after each, cut into blocks of `length`; no token is left out.

    Yields {"input_ids": int64 tensor (length,)}; the last block may be shorter. A block may have the end of one
    document and the start of the next, separated only by the EOS; attention crosses it. Each worker of a `DataLoader`
    packs its own shards.

    `state_dict` has the place after the last block, and `load_state_dict` continues there with exactly the blocks that
    would have followed. This holds in the process that iterates; for the workers of a `DataLoader`, use a loader that
    saves their state, e.g. torchdata's `StatefulDataLoader`. To continue, the shard is read again from its start, but
    nothing is tokenized twice.

    Args:
        documents: a stream that has `text`.
        tokenizer: a fast tokenizer with an EOS token; its other special tokens are not added.
        length: tokens in a block (Petty et al. 2023: 1,024).
        drop_last: whether to drop a shorter last block.
        batch_size: documents per call of the tokenizer.

    Raises:
        ValueError: the tokenizer has no EOS token, or a number is not positive.
    """

    def __init__(
        self,
        documents: datasets.IterableDataset,
        tokenizer: PreTrainedTokenizerBase,
        length: int = 1024,
        *,
        drop_last: bool = False,
        batch_size: int = 64,
    ) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer has no EOS token, which is needed between documents; set eos_token")
        if length < 1 or batch_size < 1:
            raise ValueError(f"length {length} and batch_size {batch_size} must be at least 1")
        # this is a new stream, which starts at the beginning even if the given one was read from
        self.documents = documents.select_columns(["text"])
        self.tokenizer = tokenizer
        self.length = length
        self.drop_last = drop_last
        self.batch_size = batch_size
        # the places where the next pass starts, and after the last block
        self._beginning: Place = {"documents": self.documents.state_dict(), "pending": []}
        self._start = self._here = self._beginning

    @property
    def position(self) -> Place:
        """The place, without a copy; it never changes later. `plain` makes it a state."""
        return self._here

    @staticmethod
    def plain(place: Place) -> Place:
        """A place as plain numbers, strings, lists and dicts."""
        return {"documents": copy.deepcopy(place["documents"]), "pending": [int(token) for token in place["pending"]]}

    def state_dict(self) -> Place:
        """The place as plain numbers, strings, lists and dicts."""
        return self.plain(self._here)

    def load_state_dict(self, state: Place) -> None:
        """Start the next pass at that place; later passes start at the beginning."""
        self._start = self._here = state

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        start, self._start = self._start, self._beginning
        self.documents.load_state_dict(copy.deepcopy(start["documents"]))
        pending = np.array(start["pending"], dtype=np.int64)
        place = start["documents"]
        stream = iter(self.documents)
        while True:
            while len(pending) >= self.length:
                block, pending = pending[: self.length], pending[self.length :]
                yield self._block(block, place, pending)
            if not (batch := list(islice(stream, self.batch_size))):
                break
            place = self.documents.state_dict()
            pending = np.concatenate((pending, self._tokens([document["text"] for document in batch])))
        if len(pending) and not self.drop_last:
            yield self._block(pending, self.documents.state_dict(), pending[:0])

    def _tokens(self, texts: list[str]) -> np.ndarray:
        encoded = self.tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
        end = self.tokenizer.eos_token_id
        return np.concatenate([np.array([*ids, end], dtype=np.int64) for ids in encoded["input_ids"]])

    def _block(self, block: np.ndarray, documents: dict[str, Any], pending: np.ndarray) -> dict[str, torch.Tensor]:
        self._here = {"documents": documents, "pending": pending}
        return {"input_ids": torch.from_numpy(block.copy())}
