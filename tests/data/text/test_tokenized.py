"""Splits as token ids: what is padded, what is a label, and in which order."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from hf_sysgen.data.text.splits import RaggedIds, TokenizedSplit

PAD = 9
SOURCES = [[1, 2, 3, 4, 5], [6], [1, 2, 3]]
TARGETS = [[7, 8], [1, 2, 3, 8], [8]]


def test_batch_by_hand():
    batch = TokenizedSplit(SOURCES, TARGETS, PAD)[np.array([2, 1])]
    assert {name: tensor.tolist() for name, tensor in batch.items()} == {
        "input_ids": [[1, 2, 3], [6, PAD, PAD]],
        "attention_mask": [[1, 1, 1], [1, 0, 0]],
        "labels": [[8, -100, -100, -100], [1, 2, 3, 8]],
    }
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())


def test_without_eos_as_a_label():
    labels = TokenizedSplit(SOURCES, TARGETS, PAD, train_eos=False)[np.array([0, 1, 2])]["labels"]
    assert labels.tolist() == [[7, -100, -100, -100], [1, 2, 3, -100], [-100, -100, -100, -100]]


def test_targets_stay_whole_without_eos_as_a_label():
    """Evaluation reads the same split."""
    ids, real = TokenizedSplit(SOURCES, TARGETS, PAD, train_eos=False).targets.padded(np.array([1]), -100)
    assert ids.tolist() == [[1, 2, 3, 8]]
    assert real.all()


def test_by_length_sorts_by_target_then_source():
    split = TokenizedSplit([[1] * 3, [1], [1] * 2, [1] * 5], [[1] * 2, [1] * 2, [1], [1] * 7], PAD)
    assert split.by_length(np.array([3, 0, 1, 2])).tolist() == [2, 1, 0, 3]
    assert split.by_length(np.array([1, 3, 1])).tolist() == [1, 1, 3]


def test_one_row():
    batch = TokenizedSplit(SOURCES, TARGETS, PAD)[1]
    assert batch["input_ids"].tolist() == [[6]]
    assert batch["labels"].tolist() == [[1, 2, 3, 8]]


@given(st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=8), st.data())
def test_padding_keeps_every_id(sequences, data):
    rows = data.draw(st.lists(st.integers(0, len(sequences) - 1), max_size=9))
    ids, real = RaggedIds(sequences).padded(np.array(rows, np.int64), -1)
    assert ids.shape == real.shape == (len(rows), max((len(sequences[row]) for row in rows), default=0))
    for row, row_ids, row_real in zip(rows, ids, real, strict=True):
        length = len(sequences[row])
        assert row_ids.tolist() == sequences[row] + [-1] * (len(row_ids) - length)
        assert row_real.tolist() == [True] * length + [False] * (len(row_real) - length)
