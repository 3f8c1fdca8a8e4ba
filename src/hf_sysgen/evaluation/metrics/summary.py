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
from hf_sysgen.results.predictions import Judged
from hf_sysgen.results.record import CategoryScore, LengthScore, Metrics

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
    """A translation, or where nothing was written only how likely the reference is; see `TranslationRow`."""

    @property
    def prediction(self) -> str | None: ...
    @property
    def target_length(self) -> int: ...


def summarize(rows: Iterable[Judged]) -> Metrics:
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
        `las` and `uas`: share of all tokens with the right head and label, and with the right head. Last `by_length`:
        [`target_length`, examples, accuracy] in increasing length, and `by_category`: category -> [examples,
        accuracy], if the benchmark has categories.
    """
    rows = list(rows)
    summary: Metrics = {"examples": len(rows), "accuracy": _accuracy(rows)}
    names = rows[0].numbers() if rows else {}
    for name in names:
        if name not in ("row", "exact", "target_length", *COUNTS):
            summary[NAMES.get(name, name)] = _mean(getattr(row, name) for row in rows)
    for name, (part, whole) in SHARES.items():
        if part in names:
            summary[name] = sum(getattr(row, part) for row in rows) / sum(getattr(row, whole) for row in rows)
    summary["by_length"] = _by_length(rows)
    if categories := grouped(rows, "category"):
        summary["by_category"] = {
            name: CategoryScore(len(group), _accuracy(group)) for name, group in categories.items()
        }
    return summary


def summarize_text(records: Sequence[Modeled]) -> Metrics:
    """
    The metrics of a split from the records of `evaluate_text`: `examples`; over all predicted tokens together their
    number `tokens`, `loss` (nats per token), `perplexity` (its exponential) and `accuracy` (share of right first
    choices). `by_length` is empty, as all examples have one length.
    """
    tokens = sum(record.tokens for record in records)
    loss = math.fsum(record.nats for record in records) / tokens
    return {
        "examples": len(records),
        "accuracy": sum(record.correct for record in records) / tokens,
        "loss": loss,
        "perplexity": math.exp(loss) if loss < 700 else math.inf,
        "tokens": tokens,
        "by_length": [],
    }


def summarize_translations(
    records: Sequence[Translated],
    references: Sequence[str],
    setup: str,
    pairs: Sequence[Sequence[str]] | None = None,
) -> Metrics:
    """
    The metrics of a split from the records of `evaluate_translations`.

    Args:
        references: the text of each example of the split.
        setup: BLEU's setup, see `bleu_setup`.
        pairs: the column `pairs` of noun_adjective, for COMP.

    Returns:
        `examples`; `loss` and `loss_teacher`, means over all pieces; with predictions also `bleu` (0 to 100) and its
        `bleu_signature`, `accuracy` and `by_length` (see `summarize`), and with `pairs` COMP by both rules, `comp` (any
        inflection) and `comp_same_form`, over all examples. `comp_other_references` is the number of references with
        other words.
    """
    predictions = [record.prediction for record in records if record.prediction is not None]
    summary: Metrics = {"examples": len(records)}
    if len(predictions) == len(records):
        summary |= {"accuracy": _accuracy(records), "by_length": _by_length(records)}
        expected = [references[record.row] for record in records]
        found = bleu(predictions, expected, setup)
        summary |= {"bleu": found["bleu"], "bleu_signature": found["signature"]}
        if pairs is not None:
            held_out = [pairs[record.row] for record in records]
            any_form = comp(predictions, expected, held_out)
            summary["comp"] = any_form["comp"]
            summary["comp_same_form"] = comp(predictions, expected, held_out, rule="same_form")["comp"]
            summary["comp_other_references"] = any_form["other_references"]
    pieces = [record.target_length + 1 for record in records]
    for name in ("loss", "loss_teacher"):
        total = sum(getattr(record, name) * count for record, count in zip(records, pieces, strict=True))
        summary[name] = total / sum(pieces) if pieces else float("nan")
    return summary


def scores(summary: Metrics) -> dict[str, float]:
    """The scores and losses of a split by name; no counts."""
    return {name: value for name, value in summary.items() if isinstance(value, float)}


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
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _mean(values: Iterable[float]) -> float:
    values = [float(value) for value in values]
    return sum(values) / len(values) if values else float("nan")
