"""Exact match under oracle length as a metric of `evaluate`."""

from __future__ import annotations

from typing import Any

from hf_sysgen.evaluation.metrics.modules.base import SysgenMetric
from hf_sysgen.evaluation.metrics.sequences import oracle_length_match, shares


class OracleLength(SysgenMetric):
    """The share of predictions that are right once they are cut at the length of their reference.

    Args:
        predictions: texts decoded without an end symbol, at least as long as their references.
        references: texts.
        categories: of each example, for shares by category too.

    Returns:
        `oracle_length`, and `by_category`.
    """

    CITATION = "Newman, Hewitt, Liang and Manning 2020, The EOS Decision and Length Extrapolation (arXiv:2010.07174)"

    def _compute(
        self, predictions: list[str], references: list[str], categories: list[str] | None = None
    ) -> dict[str, Any]:
        return shares({"oracle_length": oracle_length_match}, predictions, references, categories)
