"""
Summarize the prediction records of a split: how often they are right, and how likely the references are. Without torch,
so that the records of a run can be scored anywhere.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from hf_sysgen.evaluation.metrics.bleu import bleu
from hf_sysgen.evaluation.metrics.comp import comp
from hf_sysgen.evaluation.metrics.sequences import perplexity_of
from hf_sysgen.results.predictions import Judged
from hf_sysgen.results.record import CategoryScore, LengthScore, SplitMetrics

# names of means that differ from the name of the record's field
NAMES = {"oracle_exact": "accuracy_oracle"}
# shares over the tokens of all examples: name -> the fields whose sums are divided
SHARES = {"las": ("correct_arcs", "tokens"), "uas": ("correct_heads", "tokens")}
COUNTS = {field for fields in SHARES.values() for field in fields}
AnyJudged = TypeVar("AnyJudged", bound=Judged)


class Modeled(Protocol):
    """A text that a language model read; see `ModelingRow`."""

    @property
    def nats(self) -> float: ...
    @property
    def correct(self) -> int: ...
    @property
    def tokens(self) -> int: ...


class Translated(Judged, Protocol):
    """A translation, or where nothing was written only how likely the reference is; see `TextRow`."""

    @property
    def prediction(self) -> str | None: ...
    @property
    def target_length(self) -> int: ...


def summarize(rows: Iterable[Judged]) -> SplitMetrics:
    """
    The metrics of a split from its prediction records.

    Args:
        rows: records with `exact`; other numbers are averaged too.

    Returns:
        `examples`; `accuracy`: share of exact matches, with EOS at the right step. For the records of `evaluate_split`
        also `loss` and `loss_teacher`: mean over examples of the mean nats per token, free-running and teacher-forced
        (Csordas et al. weigh the tokens of a batch equally, which depends on the batches; the records hold what a mean
        over all tokens needs); `accuracy_oracle`: exact match with oracle output length (Newman et al. 2020), if it was
        measured. For the records of other tasks the mean of every number that all have; instead of counts of tokens,
        `las` and `uas`: share of all tokens with the right head and label, and with the right head. `by_length`:
        [`target_length`, examples, accuracy] in increasing length, and `by_category`: category -> [examples,
        accuracy], if the benchmark has categories.
    """
    rows = list(rows)
    found: dict[str, Any] = {}
    names = rows[0].numbers() if rows else {}
    for name in names:
        if name not in ("row", "exact", "target_length", *COUNTS):
            found[NAMES.get(name, name)] = _mean(getattr(row, name) for row in rows)
    for name, (part, whole) in SHARES.items():
        if part in names:
            found[name] = sum(getattr(row, part) for row in rows) / sum(getattr(row, whole) for row in rows)
    if categories := grouped(rows, "category"):
        found["by_category"] = {name: CategoryScore(len(group), _accuracy(group)) for name, group in categories.items()}
    return SplitMetrics(examples=len(rows), accuracy=_accuracy(rows), by_length=_by_length(rows), **found)


def summarize_text(records: Sequence[Modeled]) -> SplitMetrics:
    """
    The metrics of a split from the records of `evaluate_text`: `examples`; over all predicted tokens together their
    number `tokens`, `loss` (nats per token), `perplexity` (its exponential) and `accuracy` (share of right first
    choices). `by_length` is empty, as all examples have one length.
    """
    tokens = sum(record.tokens for record in records)
    loss = math.fsum(record.nats for record in records) / tokens
    return SplitMetrics(
        examples=len(records),
        accuracy=sum(record.correct for record in records) / tokens,
        loss=loss,
        perplexity=perplexity_of(loss),
        tokens=tokens,
        by_length=[],
    )


def summarize_translations(
    records: Sequence[Translated],
    references: Sequence[str],
    setup: str,
    pairs: Sequence[Sequence[str]] | None = None,
) -> SplitMetrics:
    """
    The metrics of a split from the records of `evaluate_translations`.

    Args:
        references: the text of each example of the split.
        setup: BLEU's setup, see `bleu_setup`.
        pairs: the column `pairs` of noun_adjective, for COMP.

    Returns:
        `examples`; `loss` and `loss_teacher`, means over all pieces; `accuracy`, None without predictions; with them
        also `bleu` (0 to 100) and its `bleu_signature`, `by_length` (see `summarize`), and with `pairs` COMP by both
        rules, `comp` (any inflection) and `comp_same_form`, over all examples. `comp_other_references` is the number of
        references with other words.
    """
    predictions = [record.prediction for record in records if record.prediction is not None]
    found: dict[str, Any] = {"accuracy": None}
    if len(predictions) == len(records):
        expected = [references[record.row] for record in records]
        scored = bleu(predictions, expected, setup)
        found = {
            "accuracy": _accuracy(records),
            "bleu": scored["bleu"],
            "bleu_signature": scored["signature"],
            "by_length": _by_length(records),
        }
        if pairs is not None:
            held_out = [pairs[record.row] for record in records]
            any_form = comp(predictions, expected, held_out)
            found["comp"] = any_form["comp"]
            found["comp_same_form"] = comp(predictions, expected, held_out, rule="same_form")["comp"]
            found["comp_other_references"] = any_form["other_references"]
    pieces = [record.target_length + 1 for record in records]
    for name in ("loss", "loss_teacher"):
        total = sum(getattr(record, name) * count for record, count in zip(records, pieces, strict=True))
        found[name] = total / sum(pieces) if pieces else None
    return SplitMetrics(examples=len(records), **found)


def scores(summary: SplitMetrics) -> dict[str, float]:
    """The scores and losses of a split by name, NaN where one is not finite; no counts."""
    return {name: math.nan if value is None else value for name, value in summary.metrics.items()}


def _by_length(rows: Iterable[Judged]) -> list[LengthScore]:
    groups = grouped(rows, "target_length")
    return [LengthScore(length, len(group), _accuracy(group)) for length, group in groups.items()]


def grouped(rows: Iterable[AnyJudged], field: str) -> dict[Any, list[AnyJudged]]:
    """The records by a field, sorted by its text and by the numbers in it; records without it are left out."""
    groups = defaultdict(list)
    for row in rows:
        if (value := getattr(row, field, None)) is not None:
            groups[value].append(row)
    return dict(sorted(groups.items(), key=lambda item: natural_sort_key(str(item[0]))))


def _accuracy(rows: Iterable[Judged]) -> float:
    return _mean(bool(row.exact) for row in rows)


def natural_sort_key(name: str) -> list[tuple[bool, int, str]]:
    """A sort key that puts "k=10" after "k=2"."""
    parts = re.split(r"(\d+)", name)
    # other digits, as in "m²", are no part of a number
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _mean(values: Iterable[float]) -> float:
    values = [float(value) for value in values]
    return sum(values) / len(values) if values else float("nan")
