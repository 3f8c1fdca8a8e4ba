"""
Summarize the prediction records of a split: how often they are right, and how likely the references are. Without torch,
so that the records of a run can be scored anywhere.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hf_sysgen.evaluation.metrics.bleu import bleu
from hf_sysgen.evaluation.metrics.comp import comp

# names of means that differ from the name of the record's field
NAMES = {"oracle_exact": "accuracy_oracle"}
# shares over the tokens of all examples: name -> the fields whose sums are divided
SHARES = {"las": ("correct_arcs", "tokens"), "uas": ("correct_heads", "tokens")}
COUNTS = {field for fields in SHARES.values() for field in fields}


def summarize(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
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
    summary: dict[str, Any] = {"examples": len(rows), "accuracy": _mean(row["exact"] for row in rows)}
    for name, value in rows[0].items() if rows else ():
        if isinstance(value, int | float) and name not in ("row", "exact", "target_length", *COUNTS):
            summary[NAMES.get(name, name)] = _mean(row[name] for row in rows)
    for name, (part, whole) in SHARES.items():
        if rows and part in rows[0]:
            summary[name] = sum(row[part] for row in rows) / sum(row[whole] for row in rows)
    summary["by_length"] = [
        [length, len(group), _mean(row["exact"] for row in group)] for length, group in by_length(rows).items()
    ]
    if categories := by_category(rows):
        summary["by_category"] = {
            name: [len(group), _mean(row["exact"] for row in group)] for name, group in categories.items()
        }
    return summary


def summarize_text(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """
    The metrics of a split from the records of `evaluate_text`: `examples`; over all predicted tokens together their
    number `tokens`, `loss` (nats per token), `perplexity` (its exponential) and `accuracy` (share of right first
    choices). `by_length` is empty, as all examples have one length.
    """
    tokens = sum(record["tokens"] for record in records)
    loss = math.fsum(record["nats"] for record in records) / tokens
    return {
        "examples": len(records),
        "accuracy": sum(record["correct"] for record in records) / tokens,
        "loss": loss,
        "perplexity": math.exp(loss) if loss < 700 else math.inf,
        "tokens": tokens,
        "by_length": [],
    }


def summarize_translations(
    records: Sequence[Mapping[str, Any]],
    references: Sequence[str],
    setup: str,
    pairs: Sequence[Sequence[str]] | None = None,
) -> dict[str, Any]:
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
    if not all("prediction" in record for record in records):
        summary: dict[str, Any] = {"examples": len(records)}
    else:
        summary = summarize([{key: record[key] for key in ("exact", "target_length")} for record in records])
        predictions = [record["prediction"] for record in records]
        expected = [references[record["row"]] for record in records]
        found = bleu(predictions, expected, setup)
        summary |= {"bleu": found["bleu"], "bleu_signature": found["signature"]}
        if pairs is not None:
            held_out = [pairs[record["row"]] for record in records]
            any_form = comp(predictions, expected, held_out)
            summary["comp"] = any_form["comp"]
            summary["comp_same_form"] = comp(predictions, expected, held_out, rule="same_form")["comp"]
            summary["comp_other_references"] = any_form["other_references"]
    pieces = [record["target_length"] + 1 for record in records]
    for name in ("loss", "loss_teacher"):
        total = sum(record[name] * count for record, count in zip(records, pieces, strict=True))
        summary[name] = total / sum(pieces) if pieces else float("nan")
    return summary


def by_length(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """The records by `target_length`, in increasing length; records without it are left out."""
    groups = defaultdict(list)
    for row in rows:
        if "target_length" in row:
            groups[row["target_length"]].append(row)
    return dict(sorted(groups.items()))


def by_category(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The records by `category`, sorted by name and by the numbers in it; records without it are left out."""
    groups = defaultdict(list)
    for row in rows:
        if row.get("category") is not None:
            groups[row["category"]].append(row)
    return dict(sorted(groups.items(), key=lambda item: natural(item[0])))


def natural(name: str) -> list[tuple[bool, int, str]]:
    """A sort key that puts "k=10" after "k=2"."""
    parts = re.split(r"(\d+)", name)
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _mean(values: Iterable[float]) -> float:
    values = [float(value) for value in values]
    return sum(values) / len(values) if values else float("nan")
