"""Metrics of texts and losses, as plain functions. `evaluation.metrics.modules` wraps them for the `evaluate`
library."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hf_sysgen.errors import UserError

Match = Callable[[str, str], bool]


def check_paired(predictions: Sequence[Any], others: Sequence[Any], what: str = "references") -> None:
    """Raises UserError where there are no predictions, or not as many of the others."""
    if not len(predictions):
        raise UserError("no predictions: there is nothing to measure")
    if len(others) != len(predictions):
        raise UserError(f"{len(others)} {what} for {len(predictions)} predictions; give one for each")


def exact_match(prediction: str, reference: str) -> bool:
    """
    Whether two texts have the same tokens in the same order. Spacing does not matter. An end symbol that comes too
    early or too late is an error.
    """
    return prediction.split() == reference.split()


def oracle_length_match(prediction: str, reference: str) -> bool:
    """
    Whether a prediction is right with oracle output length, i.e. cut at the reference's length: Newman et al. 2020
    (arXiv:2010.07174).

    Args:
        prediction: decoded without an end symbol, for at least as many tokens as the reference has.
    """
    expected = reference.split()
    return prediction.split()[: len(expected)] == expected


def shares(
    matches: Mapping[str, Match],
    predictions: Sequence[str],
    references: Sequence[str],
    categories: Sequence[str] | None = None,
) -> dict[str, Any]:
    """
    The share of examples that match, for each way to match. With categories also `by_category`: category -> number of
    examples and shares.

    Raises:
        UserError: there is no example, or not one reference and one category for each.
    """
    check_paired(predictions, references)
    if categories is not None:
        check_paired(predictions, categories, "categories")
    hits = {
        name: [match(prediction, reference) for prediction, reference in zip(predictions, references, strict=True)]
        for name, match in matches.items()
    }
    result: dict[str, Any] = {name: sum(found) / len(found) for name, found in hits.items()}
    if categories is not None:
        rows: dict[str, list[int]] = defaultdict(list)
        for row, category in enumerate(categories):
            rows[category].append(row)
        result["by_category"] = {
            category: {
                "examples": len(members),
                **{name: sum(found[row] for row in members) / len(members) for name, found in hits.items()},
            }
            for category, members in sorted(rows.items())
        }
    return result


def perplexity_of(loss: float) -> float:
    """Of a mean loss in nats per token; infinite where a float cannot hold it."""
    return math.exp(loss) if loss < 700 else math.inf


def perplexity(losses: Sequence[float], lengths: Sequence[int]) -> dict[str, float]:
    """
    The exponential of the mean nats per token, where all tokens of all texts count equally.

    Args:
        losses: mean nats per token of each text.
        lengths: number of predicted tokens of each text, with the end symbol if it is predicted.

    Returns:
        `perplexity`; `loss`, its logarithm; `tokens`.

    Raises:
        UserError: there is no token, or a length is negative.
    """
    check_paired(losses, lengths, "lengths")
    if any(length < 0 for length in lengths):
        raise UserError(f"a length of {min(lengths)} tokens: lengths must not be negative")
    tokens = sum(lengths)
    if not tokens:
        raise UserError("no tokens: there is nothing to measure")
    loss = math.fsum(loss * length for loss, length in zip(losses, lengths, strict=True) if length) / tokens
    return {"perplexity": perplexity_of(loss), "loss": loss, "tokens": tokens}
