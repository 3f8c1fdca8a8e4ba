"""Exact match of whole sequences as a metric of `evaluate`."""

from __future__ import annotations

from typing import Any

from hf_sysgen.evaluation.metrics.modules.base import SysgenMetric
from hf_sysgen.evaluation.metrics.sequences import exact_match, shares


class SequenceExactMatch(SysgenMetric):
    """The share of predictions whose tokens are all those of their reference: the accuracy that the papers report.

    Args:
        predictions, references: texts; how their tokens are spaced does not matter.
        categories: of each example, for shares by category too.

    Returns:
        `exact_match`, and `by_category`.
    """

    def _compute(
        self, predictions: list[str], references: list[str], categories: list[str] | None = None
    ) -> dict[str, Any]:
        return shares({"exact_match": exact_match}, predictions, references, categories)
