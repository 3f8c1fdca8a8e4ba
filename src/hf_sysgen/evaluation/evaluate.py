"""Evaluate a model on a tokenized split: greedy exact match, losses, oracle length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hf_sysgen.data.text.splits import IGNORED
from hf_sysgen.evaluation.decoding import greedy_decode, teacher_forced_logits

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast

    from hf_sysgen.models.seq2seq import Seq2SeqLM

# what is kept of an example whose target is a text, where the benchmark has it
TEXT_COLUMNS = ("input", "target", "category", "pairs")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode; afterwards, whatever happens, the model is in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def cut(rows: Any, size: int) -> list[Any]:
    """A sequence in pieces of that size, the last of what remains."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def share_by_length(split: Any, rows: np.ndarray, size: int, rank: int, world: int) -> list[np.ndarray]:
    """One process's batches of the rows. Neighbours in length go to different processes: all finish together."""
    return cut(split.by_length(rows)[rank::world], size)


@torch.inference_mode()
def evaluate_split(
    model: Seq2SeqLM,
    split: Any,
    rows: np.ndarray | None = None,
    batch_size: int = 256,
    oracle: bool = False,
    eos_id: int | None = None,
    rank: int = 0,
    world: int = 1,
    on_batch: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """
    Decode every example greedily and compare it with its reference.

    Examples are sorted by length, so that few steps are spent on padding. No prediction depends on its batch; a loss
    does in its last digits, so that those of several processes agree with one's to about 1e-6 of them. Each batch is
    decoded for as many steps as its longest reference with EOS has (encoder_decoder_interface.py:35 of Csordas et al.),
    so no reference is ever longer than the limit.

    First the model reads the references (one pass). Up to and including its first choice that differs from the
    reference, it would have chosen the same by itself; so this tells what is right, with or without EOS, and where
    decoding token by token has to begin for what is not.

    Args:
        model: encoder-decoder model, or a decoder that goes on from the source; its mode is put back as it was.
        split: a `TokenizedSplit`.
        rows: which examples, `None` for all.
        batch_size: examples decoded together.
        oracle: also decode without EOS up to the reference's length.
        eos_id: what ends a prediction; `None` takes the model's.
        rank, world: this process takes every world-th of the sorted examples; gather the lists of all processes.
        on_batch: called with the number of examples done after each batch.

    Returns:
        for each example a record: `row`, `prediction` (ids before EOS, at most one more than the reference has words),
        `exact` (EOS at the right step included),
        `loss` and `loss_teacher` (mean nats per token of the reference with EOS, of free-running and teacher-forced
        logits; Csordas et al. report the former), `target_length` (words), and with `oracle` also `oracle_exact`.
    """
    rows = np.arange(len(split)) if rows is None else rows
    eos_id = model.config.eos_token_id if eos_id is None else eos_id
    records: dict[int, dict[str, Any]] = {}
    first_wrong: dict[int, int] = {}
    with evaluating(model):
        for batch_rows in share_by_length(split, rows, batch_size, rank, world):
            read, wrong = _read_references(model, split, batch_rows, eos_id, oracle)
            records |= read
            first_wrong |= wrong
            if on_batch is not None:
                on_batch(len(read) - len(wrong))
        # a batch begins at its first wrong choice; stable, so that lengths stay sorted beside it
        remaining = np.array(sorted(first_wrong, key=first_wrong.__getitem__), dtype=np.int64)
        for batch_rows in cut(remaining, batch_size):
            _decode_from(model, split, batch_rows, first_wrong[int(batch_rows[0])], eos_id, records)
            if on_batch is not None:
                on_batch(len(batch_rows))
    return list(records.values())


@torch.inference_mode()
def mark_teacher_forced(model: Seq2SeqLM, split: Any, records: Sequence[dict[str, Any]], batch_size: int) -> None:
    """
    Gives the records of [`evaluate_split`] an `exact_teacher`: whether the most likely word is right at every label
    after the right words, and their roles where the model reads any. Records sorted by length need little padding.
    """
    with evaluating(model):
        for some in cut(records, batch_size):
            batch = split[np.array([record["row"] for record in some])]
            batch = {key: tensor.to(model.device) for key, tensor in batch.items()}
            hits = (model(**batch).logits.argmax(-1) == batch["labels"]) | (batch["labels"] == IGNORED)  # (B, T)
            for record, hit in zip(some, hits.all(1).tolist(), strict=True):
                record["exact_teacher"] = hit


def with_texts(
    records: Sequence[Mapping[str, Any]], split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> list[dict[str, Any]]:
    """The records of `evaluate_split` with the columns of `with_columns`, and the prediction as text instead of ids."""
    return [{**record, "prediction": tokenizer.decode(record["prediction"])} for record in with_columns(records, split)]


def with_columns(
    records: Iterable[Mapping[str, Any]], split: Dataset, columns: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """The records with columns of their examples, whose numbers are under `row`; by default the `TEXT_COLUMNS`."""
    names = columns or [name for name in TEXT_COLUMNS if name in split.column_names]
    values = {name: split[name][:] for name in names}
    return [{**record, **{name: column[record["row"]] for name, column in values.items()}} for record in records]


def _batch(model: Seq2SeqLM, split: Any, rows: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Source ids (B, S) and their mask, target ids (B, T), words and EOS, and which of them are real."""
    source, source_mask = split.sources.padded(rows, split.pad_id)
    target, real = split.targets.padded(rows, IGNORED)
    return tuple(tensor.to(model.device) for tensor in (source, source_mask.long(), target, real))


def _read_references(
    model: Seq2SeqLM, split: Any, rows: np.ndarray, eos_id: int, oracle: bool
) -> tuple[dict[int, dict[str, Any]], dict[int, int]]:
    """Records by row, final for what is right; and for the other rows the step of their first wrong choice."""
    source, source_mask, target, real = _batch(model, split, rows)
    logits = teacher_forced_logits(model, source, source_mask, target)
    losses = _row_losses(logits, target, real).tolist()
    differs = (logits.argmax(dim=-1) != target) & real  # (B, T)
    first = torch.where(differs.any(dim=1), differs.int().argmax(dim=1), -1).tolist()
    lengths = (real.sum(dim=1) - 1).tolist()
    records = {}
    for index, row in enumerate(rows.tolist()):
        records[row] = {
            "row": row,
            "prediction": target[index, : lengths[index]].tolist(),
            "exact": first[index] < 0,
            "loss": losses[index],
            "loss_teacher": losses[index],
            "target_length": lengths[index],
        }
    if oracle:
        logits[..., eos_id] = -torch.inf
        words = real & (target != eos_id)
        hits = ((logits.argmax(dim=-1) == target) | ~words).all(dim=1).tolist()
        for row, hit in zip(rows.tolist(), hits, strict=True):
            records[row]["oracle_exact"] = hit
    return records, {row: step for row, step in zip(rows.tolist(), first, strict=True) if step >= 0}


def _decode_from(
    model: Seq2SeqLM, split: Any, rows: np.ndarray, start: int, eos_id: int, records: dict[int, dict[str, Any]]
) -> None:
    """Put prediction and free-running loss into the records of rows whose first `start` choices are the reference's."""
    # the longest first: rows that have come to the end of their reference leave the batch
    rows = rows[np.argsort(-split.targets.lengths[rows], kind="stable")]
    source, source_mask, target, real = _batch(model, split, rows)
    lengths = real.sum(dim=1).tolist()
    ids, logits = greedy_decode(model, source, source_mask, target.shape[1], given=target[:, :start], lengths=lengths)
    losses = _row_losses(logits, target, real).tolist()
    for row, row_ids, loss in zip(rows.tolist(), ids.tolist(), losses, strict=True):
        # columns beyond a row's own reference and EOS are there for longer neighbours
        row_ids = row_ids[: records[row]["target_length"] + 1]
        end = row_ids.index(eos_id) if eos_id in row_ids else len(row_ids)
        records[row] |= {"prediction": row_ids[:end], "loss": loss}


def _row_losses(logits: torch.Tensor, target: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over the real tokens of each row: logits (B, T, V), target (B, T) -> (B,)."""
    flat = (logits.float().flatten(0, 1), target.flatten())
    losses = nn.functional.cross_entropy(*flat, ignore_index=IGNORED, reduction="none").view_as(target)
    return losses.sum(dim=1) / real.sum(dim=1)
