"""Judge a model that translates: beam search, BLEU and COMP as Chaabouni et al. 2021 take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from hf_sysgen.data.text.splits import IGNORED, TokenizedSplit
from hf_sysgen.evaluation.checkpoints import most_new_tokens
from hf_sysgen.evaluation.decoding import teacher_forced_logits
from hf_sysgen.evaluation.evaluate import Columns, Measured, chunks, evaluating
from hf_sysgen.evaluation.metrics.bleu import bleu_setup
from hf_sysgen.evaluation.metrics.summary import Translated, summarize_translations
from hf_sysgen.results.predictions import TextRow
from hf_sysgen.results.record import SplitMetrics

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerFast


# fairseq's limit of a translation's tokens, without its end (`max_len_b`)
MAX_LEN_B = 200


def fairseq_generation_kwargs(
    eos_id: int, beams: int = 5, length_penalty: float = 1.0, max_length: int = MAX_LEN_B
) -> dict[str, Any]:
    """
    Arguments of `generate` that search as fairseq's SequenceGenerator does (sequence_generator.py:294-425).

    The best hypothesis and its score, sum log p / (length with end)^length_penalty, are fairseq's: 2 x beams candidates
    a step, an end counts only among the first `beams` of them and not as the first token, and a sentence is done when
    `beams` hypotheses have ended. What differs: where more than the missing number of hypotheses end in one step,
    fairseq keeps the first of them, transformers the best of all that have ended, so that the second to last of
    `num_return_sequences` may be others.

    Args:
        beams: 1 is greedy decoding.
        length_penalty: fairseq's `--lenpen`.
        max_length: longest target without its end: `max_len_a` times the source's length plus `max_len_b`.
    """
    settings: dict[str, Any] = {
        "do_sample": False,
        "num_beams": beams,
        "min_new_tokens": 1,
        "max_new_tokens": max_length + 1,
        "forced_eos_token_id": eos_id,
    }
    if beams > 1:
        settings |= {"early_stopping": True, "length_penalty": length_penalty}
    return settings


def usable_rows(split: TokenizedSplit, benchmark: str, config: str, name: str) -> np.ndarray:
    """
    The pairs of a split whose numbers of subwords are neither too small, too large nor too different, (N,).

    FLoRes filters its training text (`prepare-neen.sh`, `prepare-sien.sh`). WMT14 English-French, which the paper
    follows for noun_adjective, filters training and validation (`prepare-wmt14en2fr.sh`). IWSLT14 is filtered by words,
    which the benchmark's builder does.
    """
    if benchmark == "flores" and name == "train":
        shortest, longest, ratio = 6 if "si" in config else 1, 250, 250.0
    elif benchmark == "noun_adjective" and name in ("train", "validation"):
        shortest, longest, ratio = 1, 250, 1.5
    else:
        return np.arange(len(split))
    short, long = (pick(split.source_target_lengths(), axis=0) - 1 for pick in (np.min, np.max))
    return np.flatnonzero((short >= shortest) & (long <= longest) & (long <= ratio * short))


@dataclass(slots=True)
class Translation(Measured):
    """
    An example as [`evaluate_translations`] leaves it.

    Attributes:
        row: its number in the split.
        loss: mean nats per piece of the reference, its end included, smoothed.
        loss_teacher: the same, unsmoothed.
        target_length: pieces of the reference.
        prediction, exact: the text, and whether it is the reference; `None` where nothing was written.
    """

    row: int
    loss: float
    loss_teacher: float
    target_length: int
    prediction: str | None = None
    exact: bool | None = None


def translation_rows(records: Iterable[Translation], name: str, split: Dataset) -> list[TextRow]:
    """The records as rows of the split of that name, with its text columns."""
    columns = Columns(split)
    return [
        TextRow(split=name, prediction=record.prediction or "", **record.numbers(), **columns[record.row])
        for record in records
    ]


def summarize_split(
    records: Sequence[Translated], examples: Dataset, benchmark: str, config: str, name: str
) -> SplitMetrics:
    """The metrics of a split of a benchmark, see `summarize_translations`."""
    # the test split has pairs of noun and adjective that were held out
    pairs = examples["pairs"][:] if benchmark == "noun_adjective" and name == "test" else None
    return summarize_translations(records, examples["target"][:], bleu_setup(benchmark, config, name), pairs)


@torch.inference_mode()
def evaluate_translations(
    model: Any,
    split: TokenizedSplit,
    tokenizer: PreTrainedTokenizerFast,
    references: Sequence[str],
    rows: np.ndarray | None = None,
    batch_size: int = 64,
    decode: bool = True,
    brief: bool = False,
    label_smoothing: float = 0.0,
    rank: int = 0,
    world: int = 1,
    on_batch: Callable[[int], None] | None = None,
) -> list[Translation]:
    """
    How likely the references are, and what the model writes by its own generation config.

    Args:
        model: encoder-decoder model; its mode is put back as it was.
        split: subwords of both sides.
        references: text of every example.
        rows: which examples, `None` for all.
        batch_size: examples decoded together.
        decode: whether to translate, which takes most of the time.
        brief: stop at 1.2 times the batch's longest source plus 10 pieces, as fairseq's validation of IWSLT14 does.
        label_smoothing: weight of the uniform distribution in `loss`.
        rank, world: this process takes every world-th of the examples, sorted by the source's length.
        on_batch: called with the number of examples done after each batch.

    Returns:
        a record for each example.
    """
    rows = np.arange(len(split)) if rows is None else rows
    order = rows[np.argsort(split.sources.lengths[rows], kind="stable")][rank::world]
    records = []
    with evaluating(model):
        for batch_rows in chunks(order, batch_size):
            batch = _judged(model, split, batch_rows, label_smoothing)
            if decode:
                texts = _translated(model, split, batch_rows, tokenizer, brief)
                for record, text in zip(batch, texts, strict=True):
                    record.prediction, record.exact = text, text == references[record.row]
            records += batch
            if on_batch is not None:
                on_batch(len(batch))
    return records


def _judged(model: Any, split: TokenizedSplit, rows: np.ndarray, label_smoothing: float) -> list[Translation]:
    source, source_mask = split.sources.padded(rows, split.pad_id)
    target, real = split.targets.padded(rows, IGNORED)
    target, counts = target.to(model.device), real.sum(1)
    logits = teacher_forced_logits(model, source.to(model.device), source_mask.long().to(model.device), target)
    scores = logits.float().transpose(1, 2)
    smoothed, plain = (
        (cross_entropy(scores, target, reduction="none", label_smoothing=weight).sum(1).cpu() / counts).tolist()
        for weight in (label_smoothing, 0.0)
    )
    return [
        Translation(row, loss, teacher, count - 1)
        for row, loss, teacher, count in zip(rows.tolist(), smoothed, plain, counts.tolist(), strict=True)
    ]


def _translated(
    model: Any, split: TokenizedSplit, rows: np.ndarray, tokenizer: PreTrainedTokenizerFast, brief: bool
) -> list[str]:
    source, mask = split.sources.padded(rows, split.pad_id)
    limit = most_new_tokens(model, default=MAX_LEN_B + 1)
    if brief:
        limit = min(limit, int(1.2 * source.shape[1] + 10) + 1)
    generated = model.generate(
        input_ids=source.to(model.device), attention_mask=mask.long().to(model.device), max_new_tokens=limit
    )
    # a row has the start symbol, which is EOS, then the target up to its EOS
    hypotheses = [ids[: ids.index(tokenizer.eos_token_id)] for ids in ([*row, tokenizer.eos_token_id] for row in
                  generated[:, 1:].tolist())]  # fmt: skip
    return tokenizer.batch_decode(hypotheses)
