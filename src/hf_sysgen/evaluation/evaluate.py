"""Evaluate a model on a tokenized split: greedy exact match, losses, oracle length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from hf_sysgen.evaluation.decoding import greedy_decode

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast

    from hf_sysgen.models.seq2seq import Seq2SeqLM

IGNORED = -100


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

    Examples are sorted by length, so that few steps are spent on padding; no result depends on its batch. Each batch
    is decoded for as many steps as its longest reference with EOS has (encoder_decoder_interface.py:35 of Csordas et
    al.), so no reference is ever longer than the limit. An example whose teacher-forced choices are all right needs
    no decoding: fed with its own choices, the model sees the reference again.

    Args:
        model: encoder-decoder model; its mode is put back as it was.
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
    was_training = model.training
    model.eval()
    records: list[dict[str, Any]] = []
    try:
        # neighbours in length go to different processes, so that all finish together
        for batch_rows in _chunks(split.by_length(rows)[rank::world], batch_size):
            records += _evaluate_batch(model, split, batch_rows, eos_id, oracle)
            if on_batch is not None:
                on_batch(len(batch_rows))
    finally:
        model.train(was_training)
    return records


def with_texts(
    records: Sequence[Mapping[str, Any]], split: Dataset, tokenizer: PreTrainedTokenizerFast
) -> list[dict[str, Any]]:
    """The records of `evaluate_split` with the example's `input`, `target` and, where the benchmark has one, its
    `category`; and with the prediction as text instead of ids."""
    columns = {name: list(split[name]) for name in ("input", "target", "category") if name in split.column_names}
    return [
        {
            **record,
            **{name: values[record["row"]] for name, values in columns.items()},
            "prediction": " ".join(tokenizer.convert_ids_to_tokens(record["prediction"])),
        }
        for record in records
    ]


def _chunks(rows: np.ndarray, size: int) -> Sequence[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _evaluate_batch(model: Seq2SeqLM, split: Any, rows: np.ndarray, eos_id: int, oracle: bool) -> list[dict]:
    device = model.device
    source, source_mask = split.sources.padded(rows, split.pad_id)
    target, real = split.targets.padded(rows, IGNORED)  # (B, T), words and EOS
    source, source_mask, target, real = (tensor.to(device) for tensor in (source, source_mask.long(), target, real))
    steps = target.shape[1]
    teacher = model(
        input_ids=source,
        attention_mask=source_mask,
        decoder_input_ids=model.prepare_decoder_input_ids_from_labels(target),
    ).logits
    ids = teacher.argmax(dim=-1)  # (B, T)
    teacher_loss = _row_losses(teacher, target, real)
    free_loss = teacher_loss.clone()
    wrong = ((ids != target) & real).any(dim=1).nonzero().squeeze(1)
    if len(wrong):
        decoded, logits = greedy_decode(model, source[wrong], source_mask[wrong], steps)
        ids[wrong] = decoded
        free_loss[wrong] = _row_losses(logits, target[wrong], real[wrong])
    hits = ((ids == target) | ~real).all(dim=1)
    oracle_hits = [None] * len(rows)
    if oracle:
        # a right row takes no EOS before its end, so forbidding it changes nothing
        missed = (~hits).nonzero().squeeze(1)
        words = real & (target != eos_id)
        oracle_hits = hits.clone()
        if len(missed):
            without_eos, _ = greedy_decode(model, source[missed], source_mask[missed], steps, forbidden_id=eos_id)
            oracle_hits[missed] = ((without_eos == target[missed]) | ~words[missed]).all(dim=1)
    lengths = real.sum(dim=1) - 1
    records = []
    for index, (row, row_ids) in enumerate(zip(rows.tolist(), ids.tolist(), strict=True)):
        # columns beyond a row's own reference and EOS are there for longer neighbours
        row_ids = row_ids[: lengths[index] + 1]
        end = row_ids.index(eos_id) if eos_id in row_ids else len(row_ids)
        record = {
            "row": row,
            "prediction": row_ids[:end],
            "exact": bool(hits[index]),
            "loss": float(free_loss[index]),
            "loss_teacher": float(teacher_loss[index]),
            "target_length": int(lengths[index]),
        }
        if oracle:
            record["oracle_exact"] = bool(oracle_hits[index])
        records.append(record)
    return records


def _row_losses(logits: torch.Tensor, target: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over the real tokens of each row: logits (B, T, V), target (B, T) -> (B,)."""
    losses = nn.functional.cross_entropy(logits.float().transpose(1, 2), target, ignore_index=IGNORED, reduction="none")
    return losses.sum(dim=1) / real.sum(dim=1)
