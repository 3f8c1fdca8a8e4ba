"""Evaluate a model on a tokenized split: greedy exact match, losses, oracle length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hf_sysgen.cpu import fast_products
from hf_sysgen.data.text.splits import IGNORED, BatchedSplit, TokenizedSplit
from hf_sysgen.evaluation.decoding import greedy_decode, is_sysgen_model, teacher_forced_logits
from hf_sysgen.models import RoleFillerTransformerConfig
from hf_sysgen.results.predictions import AnyRow, TextRow

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast

    from hf_sysgen.models.seq2seq import Seq2SeqLM

# columns that a row keeps, if the benchmark has them and the target is text
TEXT_COLUMNS = ("input", "target", "category", "pairs")
# pairs of target positions in a batch, over its examples: plain attention keeps several numbers for each pair and head.
# With 256 outputs of COGS, of up to 481 tokens, evaluation needs 1.3 GB, without a bound 4.9 GB and 1.4 times as long
PAIRS = 2**23


class Measured:
    """Records of evaluation: dataclasses with slots."""

    __slots__: tuple[str, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """What was measured, by name: numbers, and whether something is right."""
        found = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in found if isinstance(value, int | float)}


@dataclass(slots=True)
class Decoded(Measured):
    """
    An example as [`evaluate_split`] leaves it.

    Attributes:
        row: its number in the split.
        prediction: ids before EOS, at most one more than the reference has words.
        exact: whether it is right, with EOS at the right step.
        loss, loss_teacher: mean nats per token of the reference with EOS, from free-running and from teacher-forced
            logits; Csordas et al. report the first.
        target_length: words of the reference.
        oracle_exact: whether it is right with oracle output length; `None` if not measured.
        exact_teacher: see [`mark_teacher_forced`].
        tokens: pieces of the reference, see `to_word_level`.
    """

    row: int
    prediction: list[int]
    exact: bool
    loss: float
    loss_teacher: float
    target_length: int
    oracle_exact: bool | None = None
    exact_teacher: bool | None = None
    tokens: int | None = None


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode. Afterwards the model has its former mode again, even after an error."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def keeping_random_state(device: torch.device) -> AbstractContextManager[None]:
    """Afterwards the random numbers of the CPU and of the device go on as if nothing had been drawn."""
    return torch.random.fork_rng([device] if device.type == "cuda" else [])


@contextmanager
def with_attention(model: Any, implementation: str) -> Iterator[None]:
    """The model with another implementation of attention for a while."""
    before = model.config._attn_implementation
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def reading(model: Any) -> Iterator[None]:
    """
    For passes over whole references: on a CPU they are faster with plain attention in place of SDPA and with products
    by oneDNN (perf/cpu_ways.py). Steps of decoding, one token each, are not.
    """
    on_cpu = model.device.type == "cpu"
    with with_attention(model, "eager") if on_cpu else nullcontext(), fast_products():
        yield


def chunks(rows: Any, size: int) -> list[Any]:
    """A sequence in pieces of that size; the last one may be shorter."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def sample_rows(rows: np.ndarray, wanted: int | None, seed: int) -> np.ndarray:
    """As many of the rows as wanted, in their order, the same ones for the same seed; all if `None` or too few."""
    if wanted is None or wanted >= len(rows):
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, wanted, replace=False))


def share_by_length(split: BatchedSplit, rows: np.ndarray, rank: int, world: int) -> np.ndarray:
    """The rows of one process, by length. Rows of similar length go to different processes: all finish together."""
    return split.by_length(rows)[rank::world]


def bounded_chunks(rows: np.ndarray, lengths: np.ndarray, size: int, pairs: int) -> list[np.ndarray]:
    """
    Rows in pieces of at most `size` rows and, where a piece has several, `pairs` pairs of positions.

    Args:
        lengths: tokens of each example, of which rows are numbers; a piece is padded to its longest row.
    """
    pieces, start, longest = [], 0, 0
    for end, length in enumerate(lengths[rows].tolist()):
        longest = max(longest, length)
        if end - start == size or (end > start and (end - start + 1) * longest**2 > pairs):
            pieces.append(rows[start:end])
            start, longest = end, length
    return [*pieces, rows[start:]] if len(rows) else []


@torch.inference_mode()
def evaluate_split(
    model: Seq2SeqLM,
    split: TokenizedSplit,
    rows: np.ndarray | None = None,
    batch_size: int = 256,
    oracle: bool = False,
    eos_id: int | None = None,
    rank: int = 0,
    world: int = 1,
    on_batch: Callable[[int], None] | None = None,
) -> list[Decoded]:
    """
    Decode every example greedily and compare it with its reference.

    Examples are sorted by length, to save padding. Predictions do not depend on the batch. Losses do in their last
    digits: one and several processes agree to about 1e-6. Each batch is decoded for as many steps as its longest
    reference has tokens, with EOS (encoder_decoder_interface.py:35 of Csordas et al.), so no reference exceeds the
    limit.

    First, one teacher-forced pass over the references. Up to and including its first wrong token, greedy decoding would
    choose the same tokens. So this pass finds all examples that are correct, with or without EOS, and for the others
    the step at which token-by-token decoding must start.

    Args:
        model: an encoder-decoder model, or a decoder that continues the source; its mode is restored.
        rows: which examples, `None` for all.
        batch_size: examples decoded together, fewer if they are long, see `PAIRS`.
        oracle: also decode with oracle output length, ignoring EOS.
        eos_id: the id that ends a prediction; `None` takes the model's.
        rank, world: this process takes every world-th of the sorted examples; the caller gathers the lists.
        on_batch: called with the number of examples done after each batch.

    Returns:
        a record for each example.
    """
    rows = np.arange(len(split)) if rows is None else rows
    eos_id = model.config.eos_token_id if eos_id is None else eos_id
    records: dict[int, Decoded] = {}
    first_wrong: dict[int, int] = {}
    lengths = split.targets.lengths
    with evaluating(model):
        with reading(model):
            for batch_rows in bounded_chunks(share_by_length(split, rows, rank, world), lengths, batch_size, PAIRS):
                read, wrong = _read_references(model, split, batch_rows, eos_id, oracle)
                records |= read
                first_wrong |= wrong
                if on_batch is not None:
                    on_batch(len(read) - len(wrong))
        # batches by the step of the first wrong choice; a stable sort, so that lengths stay sorted within it
        remaining = np.array(sorted(first_wrong, key=first_wrong.__getitem__), dtype=np.int64)
        for batch_rows in chunks(remaining, batch_size):
            _decode_from(model, split, batch_rows, first_wrong[int(batch_rows[0])], eos_id, records)
            if on_batch is not None:
                on_batch(len(batch_rows))
    return list(records.values())


def judge_split(
    model: Any,
    split: TokenizedSplit,
    examples: Dataset,
    tokenizer: PreTrainedTokenizerFast,
    rows: np.ndarray | None = None,
    batch_size: int = 256,
    final: bool = True,
    **options: Any,
) -> list[Decoded]:
    """
    Evaluate a split as [`evaluate_split`] does. Predictions of a model of transformers are compared word by word, see
    `to_word_level`.

    Args:
        examples: the columns of the split.
        final: measure all: exact match with oracle length, and of role-filler Transformers also with teacher forcing,
            see [`mark_teacher_forced`].
        options: others of `evaluate_split`.
    """
    records = evaluate_split(model, split, rows, batch_size=batch_size, oracle=final, **options)
    if not is_sysgen_model(model):
        records = to_word_level(records, tokenizer, examples["target"][:])
    if final and isinstance(model.config, RoleFillerTransformerConfig):
        mark_teacher_forced(model, split, records, batch_size)
    return records


def to_word_level(
    records: Iterable[Decoded], tokenizer: PreTrainedTokenizerFast, targets: Sequence[str]
) -> list[Decoded]:
    """
    Turn subword-level records (see `evaluate_split`) into word-level records. `exact`: whether the prediction has the
    target's words, however split into subwords. `target_length` counts words, `tokens` the reference's subwords.
    """
    found = []
    for record in records:
        words, pieces = targets[record.row].split(), record.target_length
        # a prediction with more tokens than the reference has not ended
        ended = len(record.prediction) <= pieces
        exact = record.exact or (ended and str(tokenizer.decode(record.prediction)).split() == words)
        found.append(replace(record, exact=exact, target_length=len(words), tokens=pieces))
    return found


@torch.inference_mode()
def mark_teacher_forced(model: Seq2SeqLM, split: TokenizedSplit, records: Sequence[Decoded], batch_size: int) -> None:
    """
    Add `exact_teacher` to the records of [`evaluate_split`]: whether under teacher forcing the most likely word is
    right at every label. Records sorted by length need little padding.

    Chakravarthy et al. 2022 count so (test.py:63-104). As a word has one role in every scheme, that is `exact` measured
    in another way; it can differ only where EOS is no label, or where a batch decides what a threshold does
    (`renormalization`).
    """
    with evaluating(model), reading(model):
        for some in chunks(records, batch_size):
            batch = split[np.array([record.row for record in some])]
            batch = {key: tensor.to(model.device) for key, tensor in batch.items()}
            hits = (model(**batch).logits.argmax(-1) == batch["labels"]) | (batch["labels"] == IGNORED)  # (B, T)
            for record, hit in zip(some, hits.all(1).tolist(), strict=True):
                record.exact_teacher = hit


def with_texts(
    records: Iterable[Decoded], name: str, split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> list[TextRow]:
    """The records as rows of the split of that name, with its [`TEXT_COLUMNS`], and predictions as text."""
    columns = Columns(split)
    return [
        TextRow(
            split=name,
            prediction=str(tokenizer.decode(record.prediction)),
            **record.numbers(),
            **columns[record.row],
        )
        for record in records
    ]


class Columns:
    """
    Columns of a split, read at once.

    Args:
        names: which; by default the [`TEXT_COLUMNS`] that the split has.
    """

    def __init__(self, split: Dataset, names: Iterable[str] | None = None):
        names = names or [name for name in TEXT_COLUMNS if name in split.column_names]
        self.values = {name: split[name][:] for name in names}

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Of one example, by name."""
        return {name: column[row] for name, column in self.values.items()}

    def added(self, rows: Iterable[AnyRow]) -> list[AnyRow]:
        """The rows with the columns of their examples."""
        return [row.model_copy(update=self[row.row]) for row in rows]


def _batch(model: Seq2SeqLM, split: TokenizedSplit, rows: np.ndarray) -> tuple[torch.Tensor, ...]:
    """Source ids (B, S) and their mask, target ids (B, T) with EOS, and their mask."""
    source, source_mask = split.sources.padded(rows, split.pad_id)
    target, real = split.targets.padded(rows, IGNORED)
    return tuple(tensor.to(model.device) for tensor in (source, source_mask.long(), target, real))


def _read_references(
    model: Seq2SeqLM, split: TokenizedSplit, rows: np.ndarray, eos_id: int, oracle: bool
) -> tuple[dict[int, Decoded], dict[int, int]]:
    """Records by row, final for examples that are right; and for the others the step of the first wrong choice."""
    source, source_mask, target, real = _batch(model, split, rows)
    logits = teacher_forced_logits(model, source, source_mask, target)
    losses = _row_losses(logits, target, real).tolist()
    differs = (logits.argmax(dim=-1) != target) & real  # (B, T)
    first = torch.where(differs.any(dim=1), differs.int().argmax(dim=1), -1).tolist()
    lengths = (real.sum(dim=1) - 1).tolist()
    records = {}
    for index, row in enumerate(rows.tolist()):
        records[row] = Decoded(
            row=row,
            prediction=target[index, : lengths[index]].tolist(),
            exact=first[index] < 0,
            loss=losses[index],
            loss_teacher=losses[index],
            target_length=lengths[index],
        )
    if oracle:
        logits[..., eos_id] = -torch.inf
        words = real & (target != eos_id)
        hits = ((logits.argmax(dim=-1) == target) | ~words).all(dim=1).tolist()
        for row, hit in zip(rows.tolist(), hits, strict=True):
            records[row].oracle_exact = hit
    return records, {row: step for row, step in zip(rows.tolist(), first, strict=True) if step >= 0}


def _decode_from(
    model: Seq2SeqLM, split: TokenizedSplit, rows: np.ndarray, start: int, eos_id: int, records: dict[int, Decoded]
) -> None:
    """Add prediction and free-running loss to the records of rows whose first `start` choices are right."""
    # the longest first: rows leave the batch at the end of their reference
    rows = rows[np.argsort(-split.targets.lengths[rows], kind="stable")]
    source, source_mask, target, real = _batch(model, split, rows)
    lengths = real.sum(dim=1).tolist()
    ids, logits = greedy_decode(model, source, source_mask, target.shape[1], prefix=target[:, :start], lengths=lengths)
    losses = _row_losses(logits, target, real).tolist()
    for row, row_ids, loss in zip(rows.tolist(), ids.tolist(), losses, strict=True):
        # columns after a row's own reference and EOS belong to longer rows
        row_ids = row_ids[: records[row].target_length + 1]
        end = row_ids.index(eos_id) if eos_id in row_ids else len(row_ids)
        records[row].prediction, records[row].loss = row_ids[:end], loss


def _row_losses(logits: torch.Tensor, target: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over the real tokens of each row: logits (B, T, V), target (B, T) -> (B,)."""
    flat = (logits.float().flatten(0, 1), target.flatten())
    losses = nn.functional.cross_entropy(*flat, ignore_index=IGNORED, reduction="none").view_as(target)
    return losses.sum(dim=1) / real.sum(dim=1)
