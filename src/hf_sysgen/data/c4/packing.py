"""Documents to blocks of one number of tokens: what a language model is pretrained on."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

if TYPE_CHECKING:
    import datasets
    from transformers import PreTrainedTokenizerBase


class PackedTokens(IterableDataset):
    """Tokens of a stream of documents, an EOS after each, cut into blocks of `length`; no token is left out.

    Yields {"input_ids": int64 tensor (length,)}; the last block may be shorter. A block holds the end of one document
    and the start of the next, with nothing but the EOS between them: attention goes across. Each worker of a
    `DataLoader` packs the shards that are its own.

    `state_dict` tells the place after the block that was yielded last, and `load_state_dict` goes on from there, with
    exactly the blocks that would have followed (in the process that goes through it: the state of a `DataLoader`'s
    workers is that loader's business, e.g. torchdata's `StatefulDataLoader`). Going on reads the shard again from its
    start, but tokenizes nothing twice.

    Args:
        documents: a stream that has `text`.
        tokenizer: a fast tokenizer with an EOS token; its other special tokens are not added.
        length: tokens in a block (Petty et al. 2023: 1,024).
        drop_last: whether to leave out a last block that is shorter.
        batch_size: documents that are tokenized in one call.

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
            raise ValueError("the tokenizer has no EOS token, which has to stand between documents; set eos_token")
        if length < 1 or batch_size < 1:
            raise ValueError(f"length {length} and batch_size {batch_size} must be at least 1")
        # a stream of its own, at the beginning whatever was read of the one given
        self.documents = documents.select_columns(["text"])
        self.tokenizer = tokenizer
        self.length = length
        self.drop_last = drop_last
        self.batch_size = batch_size
        # where the next pass starts, and the place after the block yielded last
        self._beginning = {"documents": self.documents.state_dict(), "pending": []}
        self._start = self._here = self._beginning

    @property
    def place(self) -> dict[str, Any]:
        """The place as it is kept, at no cost; never changed afterwards. `plain` makes it a state."""
        return self._here

    @staticmethod
    def plain(place: dict[str, Any]) -> dict[str, Any]:
        """A place, of plain numbers, strings, lists and dicts."""
        return {"documents": copy.deepcopy(place["documents"]), "pending": [int(token) for token in place["pending"]]}

    def state_dict(self) -> dict[str, Any]:
        """The place, of plain numbers, strings, lists and dicts."""
        return self.plain(self._here)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass start at that place; passes after it start at the beginning."""
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
