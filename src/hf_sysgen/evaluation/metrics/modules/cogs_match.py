"""The three equivalences of COGS' logical forms as a metric of `evaluate`."""

from __future__ import annotations

from typing import Any

from hf_sysgen.evaluation.metrics.cogs_match import exact_match, renaming_match, semantic_match
from hf_sysgen.evaluation.metrics.modules.base import SysgenMetric
from hf_sysgen.evaluation.metrics.sequences import shares


class CogsMatch(SysgenMetric):
    """The share of predicted logical forms of COGS that are their reference: exactly, up to renaming, in meaning.

    Args:
        predictions, references: logical forms.
        categories: the column `category`, for shares by category too.

    Returns:
        `exact_match`, `renaming_match`, `semantic_match` (see
        `hf_sysgen.evaluation.metrics.cogs_match`), and `by_category`.
    """

    CITATION = "Wu, Manning and Potts 2023, ReCOGS (arXiv:2303.13716)"

    def _compute(
        self, predictions: list[str], references: list[str], categories: list[str] | None = None
    ) -> dict[str, Any]:
        matches = {"exact_match": exact_match, "renaming_match": renaming_match, "semantic_match": semantic_match}
        return shares(matches, predictions, references, categories)
